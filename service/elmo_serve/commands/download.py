"""The command `elmo download`."""

from __future__ import annotations

import click

from elmo_model.models.catalogue import BUILT_IN, canonical, published_model
from elmo_serve.commands.options import cache_option
from elmo_serve.commands.terminal import download_progress, fail
from elmo_serve.models.cache import cache_of_environment
from elmo_serve.models.fetching import fetch


@click.command()
@click.argument("name", required=False)
@cache_option()
@click.option("--mirror", help="Address to fetch from.", envvar="ELMO_MIRROR", show_envvar=True)
def download(name: str | None, cache: str | None, mirror: str | None) -> None:
    """Fetch a published model.

    Prints the path of the model NAME, which may be written in any case; `elmo models` lists the
    names. Files that are in the cache are verified, partial downloads are resumed.

    \b
    Examples:
      $ elmo download 5.5B
      $ elmo download original --cache models --mirror https://mirror.example/elmo
    """

    if name is None:
        fail("NAME is missing; `elmo models` lists the models", code=2)
    if canonical(name) in BUILT_IN:
        fail(f"{name!r} comes with the program: there is nothing to fetch", code=2)
    model = published_model(name)
    if model is None:
        fail(f"{name!r} is no published model; `elmo models` lists them", code=2)
    with download_progress() as on_progress:
        path = fetch(model, cache_of_environment(cache=cache, mirror=mirror), on_progress)
    click.echo(path)
