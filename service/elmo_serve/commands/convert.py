"""The command `elmo convert`: write a model in another format, verify it, then put it in place."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from elmo_model.atomic_files import publish
from elmo_serve.commands.published import resolve_model
from elmo_serve.commands.terminal import fail, steps

if TYPE_CHECKING:
    import torch

    from elmo_model.elmo import Elmo

_NATIVE: Final = ".safetensors"
_PAIR: Final = frozenset({"options.json", "weights.hdf5", "vocab.txt", "align.pth"})
# Endings of files that users may expect in place of the folder.
_FILE_ENDINGS: Final = (
    *(".bin", ".bz2", ".ckpt", ".gz", ".h5", ".hdf", ".hdf5", ".index", ".json", ".npy", ".npz"),
    *(".onnx", ".parquet", ".pkl", ".pt", ".pth", ".tar", ".tgz", ".th", ".txt", ".xz", ".zip"),
)


@click.command()
@click.argument("source")
@click.argument("destination", type=click.Path(path_type=Path, resolve_path=True))
@click.option("--name", help="Name kept in the .safetensors file. Default: the name of SOURCE.")
@click.option(
    "--dtype",
    type=click.Choice(("float32", "float16", "bfloat16")),
    default="float32",
    show_default=True,
    help="Numbers of the .safetensors file: 16 bits halve it, and round the weights.",
)
@click.option("--force", is_flag=True, help="Replace a checkpoint at DESTINATION.")
def convert(source: str, destination: Path, name: str | None, dtype: str, force: bool) -> None:
    """Write a model in another format.

    SOURCE is a path, a built-in name or a published name. A DESTINATION that ends in .safetensors
    becomes one file in the native format; any other becomes a folder with the published pair,
    options.json and weights.hdf5. The result is read back and compared with SOURCE before it
    appears at DESTINATION.

    \b
    Examples:
      $ elmo convert elmo_2x1024 small.safetensors --name small
      $ elmo convert small.safetensors folder-for-allennlp
      $ elmo convert runs/mine mine.safetensors --dtype float16
    """
    native = destination.suffix == _NATIVE
    if name is not None and not native:
        fail(f"--name: a folder's name is its model's name; only {_NATIVE} keeps one", code=2)
    if dtype != "float32" and not native:
        fail(f"--dtype: a pair holds float32; only {_NATIVE} holds {dtype}", code=2)
    if refusal := _refusal(destination, native, force):
        fail(refusal, code=2)
    from elmo_model.checkpoints import CheckpointError

    source = resolve_model(source)
    try:
        _convert(source, destination, name, dtype)
    except CheckpointError as error:
        fail(str(error), code=1)
    except OSError as error:
        fail(f"{destination} cannot be written: {error.strerror or error}", code=1)


def _convert(source: str, destination: Path, name: str | None, dtype: str) -> None:
    """Write into a temporary folder of the same file system, verify, and move into place."""
    import torch

    from elmo_model.checkpoints import describe, round_weights
    from elmo_model.models.opening import open_model

    with steps() as step:
        step(f"Reading {source}")
        elmo = open_model(source)
        if name is not None:
            elmo.origin = dataclasses.replace(elmo.origin, name=name)
        if dtype != "float32":
            round_weights(elmo, getattr(torch, dtype))
        with tempfile.TemporaryDirectory(prefix=".elmo-", dir=destination.parent) as aside:
            step(f"Writing {destination}")
            written = Path(aside) / destination.name
            _write(elmo, written, destination, getattr(torch, dtype))
            step("Comparing")
            _, origin, _ = describe(written)
            if origin.revision != elmo.origin.revision:
                raise OSError(f"revision {origin.revision} came back for {elmo.origin.revision}")
            size = _size(written)
            _place(written, destination)
    click.echo(f"Wrote {destination}: {elmo.origin.name}, {origin.format}, {size / 1e6:.1f} MB")
    if elmo.tasks and destination.suffix != _NATIVE:
        names = ", ".join(task.name for task in elmo.tasks)
        click.echo(
            f"elmo: a pair keeps no tasks, these are left out: {names}; "
            f"`elmo tasks {source} FOLDER` writes them",
            err=True,
        )


def _write(elmo: Elmo, written: Path, destination: Path, dtype: torch.dtype) -> None:
    from elmo_model.checkpoints import CheckpointError, allennlp, save

    try:
        if destination.suffix == _NATIVE:
            save(elmo, written, dtype)
        else:
            allennlp.write(elmo, written)
    except CheckpointError as error:
        # The user does not know the temporary folder.
        raise CheckpointError(str(error).replace(str(written), str(destination))) from error


def _place(written: Path, destination: Path) -> None:
    """Put the result at `destination`; move a folder that is there out of the way first."""
    if not destination.is_dir():
        publish(written, destination)
        return
    replaced = written.with_name("replaced.old")
    destination.rename(replaced)
    try:
        publish(written, destination)
    except OSError:
        replaced.rename(destination)
        raise


def _refusal(destination: Path, native: bool, force: bool) -> str | None:
    """Return why `destination` must not be written to; None if it may."""
    if not destination.parent.is_dir():
        return f"{destination}: {destination.parent} is no folder"
    if destination.suffix.lower() in _FILE_ENDINGS:
        return (
            f"{destination}: ends like a file, but the published pair is a folder; expected a "
            f"folder name, or a file that ends in {_NATIVE}"
        )
    if not destination.exists() or (destination.is_dir() and not any(destination.iterdir())):
        return f"{destination} is a folder" if native and destination.is_dir() else None
    if destination.is_dir():
        # --force replaces the whole folder, so it may hold nothing but files of a pair.
        others = sorted(path.name for path in destination.iterdir() if path.name not in _PAIR)
        if native or others:
            return f"{destination} is a folder with other files in it: {', '.join(others[:3])}"
    elif not native:
        return f"{destination} is a file; a folder is written, or a file that ends in {_NATIVE}"
    return None if force else f"{destination} exists; --force replaces it"


def _size(written: Path) -> int:
    """Return the size of a file, or of the files of a folder, in bytes."""
    files = written.iterdir() if written.is_dir() else [written]
    return sum(path.stat().st_size for path in files)
