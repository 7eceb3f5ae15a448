"""The commands `elmo models` and `elmo download`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import click

from elmo_model.models.catalogue import (
    BUILT_IN,
    published_model,
    published_models,
    tokenization,
)
from elmo_model.models.published import Published
from elmo_serve.commands.options import cache_option, json_option
from elmo_serve.commands.terminal import download_progress, fail, print_table
from elmo_serve.models.download import cache_of_environment, fetch

_COLUMNS: Final = ("name", "language", "tokenizer", "size", "cached", "licence", "text")
_BUILT_IN_LICENCE: Final = {"english": "CC BY-SA 4.0"}


@click.command()
@cache_option
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
    licence, text = _BUILT_IN_LICENCE[name], BUILT_IN[name]
    return _row(name, language, tokenizer, None, "built in", licence, text)


def _published(model: Published, cache: Path) -> dict[str, Any]:
    cached = _cached(model, cache / model.folder)
    first = model.name, model.language, model.tokenizer, model.size
    return _row(*first, cached, model.licence, model.text)


def _row(*cells: Any) -> dict[str, Any]:
    return dict(zip(_COLUMNS, cells, strict=True))


def _cached(model: Published, folder: Path) -> str:
    there = [(folder / file.name).is_file() for file in model.files]
    if all(there):
        return "yes"
    return "part" if any(there) else "no"


def _text(value: Any) -> str:
    if isinstance(value, int):
        return f"{value / 1e6:.0f} MB"
    return value or "-"


@click.command()
@click.argument("name")
@cache_option
@click.option("--mirror", help="Address to fetch from.", envvar="ELMO_MIRROR", show_envvar=True)
def download(name: str, cache: str | None, mirror: str | None) -> None:
    """Fetch a published model.

    Prints the path of the model NAME, which may be written in any case; `elmo models` lists the
    names. Files that are in the cache are verified; a download that was cut starts over.

    \b
    Examples:
      $ elmo download 5.5B
      $ elmo download original --cache models --mirror https://mirror.example/elmo
    """

    model = published_model(name)
    if model is None:
        fail(f"{name!r} is none of the published models, which `elmo models` lists", code=2)
    with download_progress() as on_progress:
        path = fetch(model, cache_of_environment(cache=cache, mirror=mirror), on_progress)
    click.echo(path)
