"""The commands `elmo download` and `elmo tasks`, and models by their published names."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from service.downloads import Places, Show
    from service.settings import Settings


@click.command()
@click.argument("name", required=False)
@click.option("--cache", help="Folder for models.", envvar="ELMO_CACHE", show_envvar=True)
@click.option("--mirror", help="Address to fetch from.", envvar="ELMO_MIRROR", show_envvar=True)
def download(name: str | None, cache: str | None, mirror: str | None) -> None:
    """Fetch the published model NAME, and say where it is; without a NAME, list them all.

    What an earlier download left is checked, and goes on where it was cut.
    """
    from model.catalogue import CATALOGUE
    from service.downloads import DownloadError, fetch
    from service.settings import SettingsError

    if name is None:
        width = max(map(len, CATALOGUE))
        for model in CATALOGUE.values():
            size = sum(file.least for file in model.files) / 1e6
            click.echo(f"{model.name:<{width}}  {size:>5.0f} MB  {model.text}")
        return
    if name not in CATALOGUE:
        _fail(f"{name!r} is no published model; there are {', '.join(CATALOGUE)}", code=2)
    try:
        with progress() as show:
            path = fetch(CATALOGUE[name], _places(cache=cache, mirror=mirror), show)
    except SettingsError as error:
        _fail(str(error), code=2)
    except DownloadError as error:
        _fail(str(error), code=1)
    click.echo(path)


@click.command()
@click.argument("source")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--force", is_flag=True, help="Replace other tasks of the same names.")
def tasks(source: str, folder: Path, force: bool) -> None:
    """Write the trained mixes of SOURCE, a path or a name, to FOLDER as task files.

    FOLDER is that of ELMO_TASKS. AllenNLP's archives, modules of TensorFlow Hub and aligned models
    bring mixes along, and so do files that were converted from them.
    """
    from model.checkpoints import CheckpointError, read
    from model.pretrained import BUILT_IN, load_built_in
    from service.errors import ServiceError
    from service.settings import SettingsError
    from service.tasks import TaskRegistry

    try:
        if source in BUILT_IN:
            elmo = load_built_in(source)
            found, layers = elmo.tasks, elmo.layers
        else:
            checkpoint = read(located(source))
            found, layers = checkpoint.tasks, checkpoint.config.layers
        if not found:
            _fail(f"{source}: holds no trained mixes", code=1)
        registry = TaskRegistry(folder, layers)
        there = {task.name: task for task in registry.list()}
        for task in found:
            if not force and there.get(task.name, task) != task:
                _fail(f"{folder / task.name}.json exists; --force replaces it", code=2)
        for task in found:
            registry.put(task)
            click.echo(f"Wrote {folder / task.name}.json")
    except (CheckpointError, ServiceError) as error:
        _fail(str(error), code=1)
    except SettingsError as error:
        _fail(str(error), code=2)


def located(model: str) -> str:
    """Return the path of a published model, fetched if need be; any other name as it is.

    Says in one line why that cannot be, and ends.
    """
    from model.catalogue import CATALOGUE
    from service.settings import SettingsError

    if model not in CATALOGUE:
        return model
    try:
        return _located(model, _places())
    except SettingsError as error:
        _fail(str(error), code=2)


def with_located_model(settings: Settings) -> Settings:
    """Return settings whose model is a path where it was the name of a published one.

    Says in one line why that cannot be, and ends.
    """
    from model.catalogue import CATALOGUE

    if settings.model not in CATALOGUE:
        return settings
    path = _located(settings.model, places_of(settings))
    return settings.model_copy(update={"model": path})


def _located(model: str, places: Places) -> str:
    from service.downloads import DownloadError
    from service.downloads import located as fetched

    try:
        with progress() as show:
            return fetched(model, places, show)
    except DownloadError as error:
        _fail(str(error), code=1)


def places_of(settings: Settings) -> Places:
    """Return where settings say that published models lie."""
    from service.downloads import Places, default_cache

    cache = settings.cache or default_cache()
    return Places(cache, settings.mirror, settings.offline)


@contextmanager
def progress() -> Iterator[Show]:
    """Show on a terminal how much of each file is there; elsewhere one line a file."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    rows: dict[str, TaskID] = {}

    def show(name: str, done: int, total: int) -> None:
        if name not in rows:
            rows[name] = bar.add_task(name)
            if not console.is_terminal:
                click.echo(f"elmo: fetching {name}", err=True)
        bar.update(rows[name], completed=done, total=total)

    with bar:
        yield show


def _places(**spoken: str | None) -> Places:
    from service.settings import from_strings, option, variable

    values = {name: os.environ.get(variable(name)) for name in ("cache", "mirror", "offline")}
    given = {name: value for name, value in spoken.items() if value is not None}
    called = {name: option(name) for name in given if os.environ.get(variable(name)) != given[name]}
    return places_of(from_strings({**values, **given}, called))


def _fail(message: str, code: int) -> NoReturn:
    """Say it in one line and end."""
    click.echo(f"elmo: {' '.join(message.split())}", err=True)
    sys.exit(code)
