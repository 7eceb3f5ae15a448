"""The command `elmo tasks`, which writes task files."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo_model.files.atomic import replacing
from elmo_serve.commands.options import json_option, resolve_model
from elmo_serve.commands.terminal import fail
from elmo_serve.errors import RequestError

if TYPE_CHECKING:
    from elmo_model.network.elmo import ElmoNetwork


@click.command()
@click.argument("source", metavar="MODEL")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--force", is_flag=True, help="Replace other tasks of the same names.")
@json_option()
def tasks(source: str, folder: Path, force: bool, as_json: bool) -> None:
    """Write the trained mixes of a model as task files.

    MODEL is the path or the name of a model. Archives of AllenNLP, modules of TensorFlow Hub and
    aligned models hold mixes, and so do files converted from them. FOLDER is made if it is missing;
    it may be the ELMO_TASKS of a server, which serves the files within two seconds.

    \b
    Examples:
      $ elmo tasks srl-model.tar.gz tasks
      $ elmo tasks module.safetensors /data/tasks --force
      $ elmo tasks srl-model.tar.gz tasks --json
    """
    from elmo_model.models.opening import open_model

    elmo = open_model(resolve_model(source))
    if not elmo.tasks:
        fail(f"{source}: holds no trained mixes", code=1)
    files = _files(elmo, folder)
    _write(files, force=force)
    if as_json:
        entries = [{"file": str(file), **json.loads(data)} for file, data in files.items()]
        click.echo(json.dumps({"tasks": entries}, indent=2))
        return
    for file in files:
        click.echo(f"Wrote {file}")
    them = "them" if len(files) > 1 else "it"
    click.echo(f"To serve {them}, copy {them} into the server's ELMO_TASKS")


def _files(elmo: ElmoNetwork, folder: Path) -> dict[Path, bytes]:
    """Return the files of the tasks of a model; end the command for one that no server reads."""
    from elmo_serve.tasks import TaskOwner, members, parse

    origin, files = elmo.origin, {}
    owner = TaskOwner(elmo.config.layers, origin.name, origin.name, origin.revision)
    for task in elmo.tasks:
        data = json.dumps(members(task, owner), indent=2).encode() + b"\n"
        try:
            parse(data, task.name)
        except (RequestError, ValueError) as error:
            fail(f"task {task.name!r}: {error}", code=1)
        files[folder / f"{task.name}.json"] = data
    return files


def _write(files: dict[Path, bytes], *, force: bool) -> None:
    """Write all files or none. One that exists with other content is replaced by `force` alone."""
    for file, data in files.items():
        if not force and file.exists() and file.read_bytes() != data:
            fail(f"{file} exists; --force replaces it", code=2)
        file.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for file, data in files.items():
            stack.enter_context(replacing(file)).write_bytes(data)
