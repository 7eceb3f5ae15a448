"""The command `elmo tasks`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from elmo_serve.commands.options import json_option, resolve_model
from elmo_serve.commands.terminal import fail


@click.command()
@click.argument("source")
@click.argument(
    "folder",
    required=False,
    envvar="ELMO_TASKS",
    type=click.Path(path_type=Path, file_okay=False),
)
@click.option("--force", is_flag=True, help="Replace other tasks of the same names.")
@json_option()
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
    from elmo_model.models.opening import open_model
    from elmo_serve.tasks.file import TaskOwner
    from elmo_serve.tasks.opening import keep_tasks

    elmo = open_model(resolve_model(source))
    found, origin = elmo.tasks, elmo.origin
    if not found:
        fail(f"{source}: holds no trained mixes", code=1)
    owner = TaskOwner(elmo.config.layers, origin.name, origin.name, origin.revision)
    files = keep_tasks(found, folder, owner, force=force)
    if as_json:
        model = {"model": origin.name, "revision": origin.revision}
        members = [
            {"file": str(file), **asdict(task), **model}
            for file, task in zip(files, found, strict=True)
        ]
        click.echo(json.dumps({"tasks": members}, indent=2))
        return
    for file in files:
        click.echo(f"Wrote {file}")
