"""The command `elmo convert`: written aside, read back, compared, then put in place."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import dataclasses
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from elmo_serve.commands.published import resolve_model
from elmo_serve.commands.terminal import fail, steps

if TYPE_CHECKING:
    from elmo_model.elmo import Elmo

_NATIVE: Final = ".safetensors"
_PAIR: Final = frozenset({"options.json", "weights.hdf5", "vocab.txt", "align.pth"})


@click.command()
@click.argument("source")
@click.argument("destination", type=click.Path(path_type=Path, resolve_path=True))
@click.option("--name", help="Name kept in the file; the source's own when not given.")
@click.option("--force", is_flag=True, help="Replace a checkpoint that is at DESTINATION.")
def convert(source: str, destination: Path, name: str | None, force: bool) -> None:
    """Write the model SOURCE, a path or a built-in name, to DESTINATION.

    A DESTINATION that ends in .safetensors becomes one file in the project's own format, any other
    a folder with the published pair, options.json and weights.hdf5. What was written is read back
    and compared before it takes its place.
    """
    native = destination.suffix == _NATIVE
    if name is not None and not native:
        fail(f"--name: a folder's name is its model's name; only {_NATIVE} keeps one", code=2)
    if refusal := _occupied(destination, native, force):
        fail(refusal, code=2)
    from elmo_model.checkpoints import CheckpointError

    try:
        _convert(source, destination, name)
    except CheckpointError as error:
        fail(str(error), code=1)
    except OSError as error:
        fail(f"{destination} cannot be written: {error.strerror or error}", code=1)


def _convert(source: str, destination: Path, name: str | None) -> None:
    """Write into a folder beside the destination, which a killed command leaves as it was."""
    from elmo_model.checkpoints import describe
    from elmo_model.pretrained import open_model

    source = resolve_model(source)
    with steps() as step:
        step(f"Reading {source}")
        elmo = open_model(source, token_cache_size=0)
        if name is not None:
            elmo.origin = dataclasses.replace(elmo.origin, name=name)
        with tempfile.TemporaryDirectory(prefix=".elmo-", dir=destination.parent) as aside:
            step(f"Writing {destination}")
            written = Path(aside) / destination.name
            _write(elmo, written, destination)
            step("Comparing")
            _, origin, _ = describe(written)
            if origin.revision != elmo.origin.revision:
                raise OSError(f"revision {origin.revision} came back for {elmo.origin.revision}")
            size = _sync(written)
            _place(written, destination)
    click.echo(f"Wrote {destination}: {elmo.origin.name}, {origin.format}, {size / 1e6:.1f} MB")
    if elmo.tasks and destination.suffix != _NATIVE:
        names = ", ".join(task.name for task in elmo.tasks)
        click.echo(
            f"elmo: a pair keeps no tasks, these are left out: {names}; "
            f"`elmo tasks {source} FOLDER` writes them",
            err=True,
        )


def _write(elmo: Elmo, written: Path, destination: Path) -> None:
    from elmo_model.checkpoints import CheckpointError, allennlp, save

    write = save if destination.suffix == _NATIVE else allennlp.write
    try:
        write(elmo, written)
    except CheckpointError as error:
        # The user knows nothing of the folder beside.
        raise CheckpointError(str(error).replace(str(written), str(destination))) from error


def _place(written: Path, destination: Path) -> None:
    if not destination.is_dir():
        written.replace(destination)
        return
    replaced = written.with_name("replaced.old")
    destination.rename(replaced)
    try:
        written.rename(destination)
    except OSError:
        replaced.rename(destination)
        raise


def _occupied(destination: Path, native: bool, force: bool) -> str | None:
    """Return why `destination` must not be written to; None where it may."""
    if not destination.parent.is_dir():
        return f"{destination}: {destination.parent} is no folder"
    if not destination.exists() or (destination.is_dir() and not any(destination.iterdir())):
        return f"{destination} is a folder" if native and destination.is_dir() else None
    if destination.is_dir():
        # A whole folder is replaced: it must hold nothing but what is written again.
        others = sorted(path.name for path in destination.iterdir() if path.name not in _PAIR)
        if native or others:
            return f"{destination} is a folder with other files in it: {', '.join(others[:3])}"
    elif not native:
        return f"{destination} is a file; a folder is written, or a file that ends in {_NATIVE}"
    return None if force else f"{destination} exists; --force replaces it"


def _sync(written: Path) -> int:
    """Bring a file, or the files of a folder, to the disk; return their size in bytes."""
    size = 0
    for path in sorted(written.iterdir()) if written.is_dir() else [written]:
        with path.open("rb") as file:
            os.fsync(file.fileno())
        size += path.stat().st_size
    return size
