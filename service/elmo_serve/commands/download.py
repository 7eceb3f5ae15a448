"""The command `elmo download`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import click

from elmo_serve.commands.published import places
from elmo_serve.commands.terminal import fail, fetching


@click.command()
@click.argument("name", required=False)
@click.option("--cache", help="Folder for models.", envvar="ELMO_CACHE", show_envvar=True)
@click.option("--mirror", help="Address to fetch from.", envvar="ELMO_MIRROR", show_envvar=True)
def download(name: str | None, cache: str | None, mirror: str | None) -> None:
    """Fetch the published model NAME, and say where it is; without a NAME, list them all.

    What an earlier download left is checked, and goes on where it was cut.
    """
    from elmo_model.catalogue import CATALOGUE
    from elmo_serve.model_cache import DownloadError, fetch
    from elmo_serve.settings import SettingsError

    if name is None:
        width = max(map(len, CATALOGUE))
        for model in CATALOGUE.values():
            size = sum(file.least for file in model.files) / 1e6
            click.echo(f"{model.name:<{width}}  {size:>5.0f} MB  {model.text}")
        return
    if name not in CATALOGUE:
        fail(f"{name!r} is no published model; there are {', '.join(CATALOGUE)}", code=2)
    try:
        with fetching() as show:
            path = fetch(CATALOGUE[name], places(cache=cache, mirror=mirror), show)
    except SettingsError as error:
        fail(str(error), code=2)
    except DownloadError as error:
        fail(str(error), code=1)
    click.echo(path)
