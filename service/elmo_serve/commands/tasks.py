"""The command `elmo tasks`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo_serve.commands.published import resolve_model
from elmo_serve.commands.terminal import fail
from elmo_serve.errors import ServiceError

if TYPE_CHECKING:
    from elmo_model.task import Task
    from elmo_serve.task_file import TaskOwner


@click.command()
@click.argument("source")
@click.argument(
    "folder",
    required=False,
    envvar="ELMO_TASKS",
    type=click.Path(path_type=Path, file_okay=False),
)
@click.option("--force", is_flag=True, help="Replace other tasks of the same names.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def tasks(source: str, folder: Path | None, force: bool, as_json: bool) -> None:
    """Write the trained mixes of a model as task files.

    SOURCE is the path or the name of a model. Archives of AllenNLP, modules of TensorFlow Hub and
    aligned models hold mixes, and so do files converted from them. FOLDER is the task folder of a
    server; by default it is ELMO_TASKS, or else elmo-serve/tasks in your data folder, as for
    `elmo serve`.

    \b
    Examples:
      $ elmo tasks srl-model.tar.gz
      $ elmo tasks module.safetensors /data/tasks --force
      $ elmo tasks srl-model.tar.gz --json
    """
    from elmo_model.checkpoints import CheckpointError
    from elmo_serve.settings import SettingsError
    from elmo_serve.task_folder import default_folder

    try:
        found, owner = _mixes(source)
        if not found:
            fail(f"{source}: holds no trained mixes", code=1)
        folder = folder or default_folder()
        _write(found, owner, folder, force)
    except (CheckpointError, ServiceError) as error:
        fail(str(error), code=1)
    except SettingsError as error:
        fail(str(error), code=2)
    files = [folder / f"{task.name}.json" for task in found]
    if as_json:
        model = {"model": owner.name, "revision": owner.revision}
        members = [
            {"file": str(file), **asdict(task), **model}
            for file, task in zip(files, found, strict=True)
        ]
        click.echo(json.dumps({"tasks": members}, indent=2))
        return
    for file in files:
        click.echo(f"Wrote {file}")


def _mixes(source: str) -> tuple[tuple[Task, ...], TaskOwner]:
    """Return the trained mixes of a model, and the model as the owner of their files."""
    from elmo_model.checkpoints import read
    from elmo_model.models.opening import BUILT_IN, load_built_in
    from elmo_serve.task_file import TaskOwner

    if source in BUILT_IN:
        elmo = load_built_in(source)
        tasks, layers, origin = elmo.tasks, elmo.layers, elmo.origin
    else:
        checkpoint = read(resolve_model(source))
        tasks, layers, origin = checkpoint.tasks, checkpoint.config.layers, checkpoint.origin()
    return tasks, TaskOwner(layers, origin.name, origin.name, origin.revision)


def _write(found: tuple[Task, ...], owner: TaskOwner, folder: Path, force: bool) -> None:
    """Write all tasks or, if a file of theirs exists and `force` is not set, none."""
    from elmo_serve.task_folder import open_folder
    from elmo_serve.tasks import TaskRegistry

    open_folder(folder, "FOLDER")
    registry = TaskRegistry(folder, owner)
    existing = {task.name: task for task in registry.list()}
    for task in found:
        if not force and existing.get(task.name, task) != task:
            fail(f"{folder / task.name}.json exists; --force replaces it", code=2)
    for task in found:
        registry.put(task)
