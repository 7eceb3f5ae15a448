"""The command `elmo convert`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from elmo_serve.commands.options import refuse_given, resolve_model
from elmo_serve.commands.terminal import fail, steps, tell

if TYPE_CHECKING:
    from elmo_model.network.elmo import ElmoNetwork

_NATIVE: Final = ".safetensors"


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
@click.option(
    "--softmax",
    type=click.Choice(("keep", "int8", "none")),
    default="keep",
    show_default=True,
    help="Softmax of SOURCE, in a file of its own beside the .safetensors file: in --dtype, in "
    "bytes with a scale a word, or left out.",
)
@click.option(
    "--softmax-words", type=click.IntRange(min=3), help="Keep its first words. Default: all."
)
@click.option("--force", is_flag=True, help="Replace the file DESTINATION.")
def convert(
    source: str,
    destination: Path,
    name: str | None,
    dtype: str,
    softmax: str,
    softmax_words: int | None,
    force: bool,
) -> None:
    """Write a model in another format.

    SOURCE is a path, a built-in name or a published name. A DESTINATION that ends in .safetensors
    becomes one file in the native format; any other becomes a folder, new or empty, with the
    published pair, options.json and weights.hdf5.

    \b
    Examples:
      $ elmo convert elmo_2x1024 small.safetensors --name small
      $ elmo convert small.safetensors folder-for-allennlp
      $ elmo convert runs/mine mine.safetensors --dtype float16 --softmax int8
    """
    native = destination.suffix == _NATIVE
    _check_options(name, dtype, softmax, native)
    if refusal := _refusal(destination, native, force):
        fail(refusal, code=2)
    from elmo_model.checkpoints import conversion
    from elmo_model.models.opening import find_softmax, open_model

    with steps() as step:
        step(f"Reading {source}")
        resolved = resolve_model(source)
        elmo = open_model(resolved)
        stored = None if softmax == "none" else find_softmax(resolved, elmo, words=softmax_words)
        if softmax != "none" and (stored is None or not native):
            owner = source if stored is None else "a pair"
            idle = ("softmax",) if softmax == "int8" else ()
            refuse_given(f"has no effect: {owner} has no softmax", "softmax_words", *idle)
        if name is not None:
            elmo.origin = dataclasses.replace(elmo.origin, name=name)
        kept = stored.read() if stored is not None and native else None
        kind = "int8" if softmax == "int8" else dtype
        form, size = conversion.convert(elmo, destination, dtype, step, kept, kind)
    click.echo(f"Wrote {destination}: {elmo.origin.name}, {form}, {size / 1e6:.1f} MB")
    if not native:
        _tell_of_losses(elmo, source, has_softmax=stored is not None)


def _check_options(name: str | None, dtype: str, softmax: str, native: bool) -> None:
    """End the command for options that do not fit the format, or each other."""
    if name is not None and not name.strip():
        fail("--name is empty: leave it out for the name of SOURCE", code=2)
    if name is not None and not native:
        fail(f"--name: a folder's name is its model's name; only {_NATIVE} keeps one", code=2)
    if dtype != "float32" and not native:
        fail(f"--dtype: a pair holds float32; only {_NATIVE} holds {dtype}", code=2)
    if softmax == "none":
        refuse_given("has no effect: --softmax none leaves the softmax out", "softmax_words")


def _tell_of_losses(elmo: ElmoNetwork, source: str, *, has_softmax: bool) -> None:
    """Tell what a published pair does not keep of a model."""
    if has_softmax:
        tell("a pair keeps no softmax: it is left out")
    stated = elmo.origin.description
    if (stated.tokenizer, stated.language) != ("moses", "en"):
        tell(
            f"a pair does not state its tokenizer, which is {stated.tokenizer} "
            f"(language {stated.language})"
        )
    if elmo.tasks:
        names = ", ".join(task.name for task in elmo.tasks)
        tell(
            f"a pair keeps no tasks, these are left out: {names}; "
            f"`elmo tasks {source} FOLDER` writes them"
        )


def _refusal(destination: Path, native: bool, force: bool) -> str | None:
    """Return why `destination` must not be written to; None if it may."""
    if not destination.parent.is_dir():
        return f"{destination}: {destination.parent} is no folder"
    if destination.is_dir():
        if native:
            return f"{destination} is a folder, expected a file or none"
        first = min((path.name for path in destination.iterdir()), default=None)
        return None if first is None else f"{destination} is not empty: it holds {first}"
    if not destination.exists():
        return None
    if not native:
        return f"{destination} is a file; a folder is written, or a file that ends in {_NATIVE}"
    return None if force else f"{destination} exists; --force replaces it"
