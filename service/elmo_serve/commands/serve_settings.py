"""The settings of `elmo serve`: an option for each, their checks, models found.

Apart from `serve`, which `elmo --help` reads: it imports neither settings nor models.
"""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from elmo_model.models.catalogue import BUILT_IN, path_fault
from elmo_serve.commands.terminal import download_progress, fail, tell
from elmo_serve.models.checks import DownloadError
from elmo_serve.models.download import cache_settings, locate, with_cache
from elmo_serve.settings import PREFIX, Settings, SettingsError, option, variable
from elmo_serve.settings.text import allowed, default, from_strings
from elmo_serve.uses import open_indexes
from elmo_serve.workers.devices import VISIBLE, Hardware

_KEY: Final = "ELMO_API_KEY"
"""The key that the commands send to a server."""


@functools.cache
def options() -> Sequence[click.Option]:
    """Return an option for each setting."""
    found = []
    for name, field in Settings.model_fields.items():
        usual = default(name)
        is_flag = field.annotation is bool  # whose value may be left out
        flag: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if is_flag else {}
        found.append(
            click.Option(
                [name, option(name)],
                envvar=variable(name),
                show_envvar=True,
                **flag,
                metavar="[VALUE]" if is_flag else "VALUE",
                help=f"{field.description} Allowed: {allowed(name)}."
                + (f" Default: {usual}." if usual is not None else ""),
            )
        )
    return found


def checked(values: Mapping[str, str | None], given: Sequence[str]) -> tuple[Settings, Hardware]:
    """Return settings, strings by field name, and the hardware that they fit.

    `given` are the fields whose option is on the command line. Models are fetched. Raises
    SettingsError for values, files, folders and devices that do not fit, and for an option with
    an empty one.
    """
    _warn_of_misspelt_variables()
    called = {name: option(name) if name in given else variable(name) for name in values}
    empty = [name for name in given if not (values.get(name, "value") or "").strip()]
    if empty:
        lines = (f"{option(name)} has no value; allowed: {allowed(name)}" for name in empty)
        raise SettingsError("\n".join(lines))
    settings = from_strings(values, called)
    if settings.cache is not None:
        _check_folder(settings.cache, called["cache"], makes=True)
    if settings.tasks is not None:
        _check_folder(settings.tasks, called["tasks"])
    open_indexes(settings.index, called["index"])
    hardware = Hardware.here(os.environ.get(VISIBLE))
    hardware.check(settings.devices, f"{called['devices']}={values['devices']!r}")
    resolved = with_resolved_models(with_cache(settings), called["models"])
    return with_absolute_paths(resolved), hardware


def _check_folder(folder: Path, called: str, *, makes: bool = False) -> None:
    """Raise SettingsError for a folder that cannot be read; `makes` makes one that is missing.

    `called` is the user's name for the setting.
    """
    try:
        if makes:
            folder.mkdir(parents=True, exist_ok=True)
        os.listdir(folder)  # noqa: PTH208 - only whether it can be read
    except OSError as error:
        # Unlike `Path.is_file`, False below a folder that this user may not search.
        is_file = os.path.isfile(folder)  # noqa: PTH113
        cause = "it is a file" if is_file else error.strerror or error
        raise SettingsError(
            f"{called}={str(folder)!r} is not allowed: {cause}; allowed: a folder that can be read"
            + " or made" * makes
        ) from None


def with_resolved_models(settings: Settings, called: str = variable("models")) -> Settings:
    """Return settings whose models are resolved as by `resolve_model`.

    One of several models that does not exist or cannot be had is kept with its `fault`, for the
    others are served all the same; a line names it and `called`, the setting of several models. The
    command ends where none is left.
    """
    models = []
    for model in settings.sources:
        try:
            source = locate(model.source, lambda: cache_settings(settings), download_progress)
        except DownloadError as error:
            models.append(replace(model, fault=str(error)))
            continue
        fault = None if source in BUILT_IN else path_fault(source)
        models.append(replace(model, source=source, fault=fault or ""))
    place = f"{called}: model {{}}: " if len(models) > 1 else ""
    faults = [place.format(model.name) + model.fault for model in models if model.fault]
    for fault in faults[: -1 if len(faults) == len(models) else None]:
        tell(fault)
    if len(faults) == len(models):
        fail(faults[-1], code=1)
    return settings.model_copy(update={"models": tuple(models)})


def with_absolute_paths(settings: Settings) -> Settings:
    """Return settings that do not depend on the working folder; names of models stay."""
    paths: dict[str, Any] = {
        name: _absolute(value)
        for name in ("cache", "softmax", "tasks")
        if (value := getattr(settings, name)) is not None
    }
    if (keys := settings.api_keys_file) is not None:
        paths["api_keys_file"] = replace(keys, path=_absolute(keys.path))
    models = tuple(
        model
        if model.fault or model.source in BUILT_IN
        else replace(model, source=str(_absolute(Path(model.source))))
        for model in settings.sources
    )
    index = tuple(map(_absolute, settings.index))
    return settings.model_copy(update={**paths, "models": models, "index": index})


def _absolute(path: Path) -> Path:
    """Return a path without the working folder in it. A link at its end stays: it may change."""
    if path.is_absolute():
        return path
    return path.resolve() if path.name in ("", "..") else path.parent.resolve() / path.name


def _warn_of_misspelt_variables() -> None:
    known = [variable(name) for name in Settings.model_fields]
    for name in sorted(os.environ):
        if name == _KEY and not any(os.environ.get(each) for each in known if _KEY in each):
            tell(f"{_KEY} is the key that a client sends; the server's keys are {_KEY}S")
        elif name.startswith(PREFIX) and name not in (*known, _KEY):
            # Only a near miss is named: Kubernetes sets ELMO_SERVICE_HOST and the like by itself.
            for meant in difflib.get_close_matches(name, known, n=1, cutoff=0.85):
                tell(f"{name} is no setting; did you mean {meant}?")
