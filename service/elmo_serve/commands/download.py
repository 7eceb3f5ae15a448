"""The command `elmo download`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import difflib

import click

from elmo_model.models.catalogue import CATALOGUE, published_model
from elmo_model.models.published import Published
from elmo_serve.commands.published import cache_options
from elmo_serve.commands.terminal import download_progress, fail


@click.command()
@click.argument("name", required=False)
@click.option("--cache", help="Folder for models.", envvar="ELMO_CACHE", show_envvar=True)
@click.option("--mirror", help="Address to fetch from.", envvar="ELMO_MIRROR", show_envvar=True)
def download(name: str | None, cache: str | None, mirror: str | None) -> None:
    """Fetch a published model, or list all of them.

    Prints the path of the model NAME, which may be written in any case. Files that are in the
    cache are verified, partial downloads are resumed. Without NAME, prints one line a model: its
    name, its size and its training text. `elmo models` tells more of them.

    \b
    Examples:
      $ elmo download
      $ elmo download 5.5B
      $ elmo download original --cache models --mirror https://mirror.example/elmo
    """
    from elmo_serve.model_cache import DownloadError, fetch
    from elmo_serve.settings import SettingsError

    if name is None:
        _list()
        return
    model = published_model(name)
    if model is None:
        suggestion = _suggestion(name, list(CATALOGUE))
        fail(f"{name!r} is no published model; {suggestion}", code=2)
    try:
        with download_progress() as on_progress:
            path = fetch(model, cache_options(cache=cache, mirror=mirror), on_progress)
    except SettingsError as error:
        fail(str(error), code=2)
    except DownloadError as error:
        fail(str(error), code=1)
    click.echo(path)


def _list() -> None:
    width = max(map(len, CATALOGUE))
    for model in CATALOGUE.values():
        click.echo(f"{model.name:<{width}}  {size_of(model):>8}  {model.text}")


def size_of(model: Published) -> str:
    """Return the size of a model's weights as text; empty where it is not published."""
    return f"{model.size / 1e6:.0f} MB" if model.size else ""


def _suggestion(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name.casefold(), names, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    return f"{meant}there are {', '.join(names)}"
