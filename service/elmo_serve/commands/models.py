"""The command `elmo models`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import click

from elmo_model.models.catalogue import BUILT_IN, published_models, tokenization
from elmo_model.models.published import Published
from elmo_serve.commands.options import cache_option, json_option
from elmo_serve.commands.terminal import print_table
from elmo_serve.models.cache import cache_of_environment

_COLUMNS: Final = ("name", "language", "tokenizer", "size", "cached", "licence", "text")
_BUILT_IN_LICENCE: Final = {"english": "CC BY-SA 4.0", "random-small": "Apache-2.0"}


@click.command()
@cache_option()
@json_option()
def models(cache: str | None, as_json: bool) -> None:
    """List the models that have names.

    Prints a line for each: its name, the language of its text, the tokenizer that split the text,
    the size of its weights, whether the cache has it whole (`yes`), in part (`part`) or not, its
    licence where one is stated, and its text. Any other number of the NLPL repository can be used
    as `nlpl:NUMBER`. Nothing is fetched, and no address is asked.

    \b
    Examples:
      $ elmo models
      $ elmo models --json | jq '.models[] | select(.language == "nl")'
    """

    folder = cache_of_environment(cache=cache).cache
    rows = [*map(_built_in, BUILT_IN), *(_published(each, folder) for each in published_models())]
    if as_json:
        click.echo(json.dumps({"models": rows}, indent=2, ensure_ascii=False))
        return
    print_table([list(_COLUMNS), *([_text(row[column]) for column in _COLUMNS] for row in rows)])


def _built_in(name: str) -> dict[str, Any]:
    tokenizer, language = tokenization(name)
    return {
        "name": name,
        "language": language,
        "tokenizer": tokenizer,
        "size": None,
        "cached": "built in",
        "licence": _BUILT_IN_LICENCE[name],
        "text": BUILT_IN[name],
    }


def _published(model: Published, cache: Path) -> dict[str, Any]:
    return {
        "name": model.name,
        "language": model.language,
        "tokenizer": model.tokenizer,
        "size": model.size,
        "cached": _cached(model, cache / model.folder),
        "licence": model.licence,
        "text": model.text,
    }


def _cached(model: Published, folder: Path) -> str:
    there = [(folder / file.name).is_file() for file in model.files]
    if all(there):
        return "yes"
    begun = any(there) or any(folder.glob("*.part"))
    return "part" if begun else "no"


def _text(value: Any) -> str:
    if isinstance(value, int):
        return f"{value / 1e6:.0f} MB"
    return value or "-"
