"""The command `elmo tasks`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

from pathlib import Path

import click

from elmo_serve.commands.published import resolve_model
from elmo_serve.commands.terminal import fail


@click.command()
@click.argument("source")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--force", is_flag=True, help="Replace other tasks of the same names.")
def tasks(source: str, folder: Path, force: bool) -> None:
    """Write the trained mixes of a model as task files.

    SOURCE is a path or a name, FOLDER the folder of ELMO_TASKS. Archives of AllenNLP, modules of
    TensorFlow Hub and aligned models hold mixes, and so do files converted from them.
    """
    from elmo_model.checkpoints import CheckpointError, read
    from elmo_model.pretrained import BUILT_IN, load_built_in
    from elmo_serve.errors import ServiceError
    from elmo_serve.settings import SettingsError
    from elmo_serve.tasks import TaskRegistry, open_folder

    try:
        if source in BUILT_IN:
            elmo = load_built_in(source)
            found, layers = elmo.tasks, elmo.layers
        else:
            checkpoint = read(resolve_model(source))
            found, layers = checkpoint.tasks, checkpoint.config.layers
        if not found:
            fail(f"{source}: holds no trained mixes", code=1)
        open_folder(folder, "FOLDER")
        registry = TaskRegistry(folder, layers)
        there = {task.name: task for task in registry.list()}
        for task in found:
            if not force and there.get(task.name, task) != task:
                fail(f"{folder / task.name}.json exists; --force replaces it", code=2)
        for task in found:
            registry.put(task)
            click.echo(f"Wrote {folder / task.name}.json")
    except (CheckpointError, ServiceError) as error:
        fail(str(error), code=1)
    except SettingsError as error:
        fail(str(error), code=2)
