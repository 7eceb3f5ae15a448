"""Word vectors on the command line: a file is read once into a map in the cache folder."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo_model.word_vectors.source import WordVectorsError
from elmo_serve.commands.published import cache_options
from elmo_serve.commands.terminal import fail

if TYPE_CHECKING:
    from elmo_serve.settings import Settings


def word_vector_map(path: Path, cache: Path | None = None) -> Path:
    """Return the folder of the map of a file, which is written at the first use of the file.

    `cache` is by default the cache folder of the environment. Ends the command with one line for a
    file that does not fit.
    """
    from elmo_model.word_vectors.store import store_folder
    from elmo_serve.model_cache import DownloadError
    from elmo_serve.settings import SettingsError

    try:
        return store_folder(path, cache or cache_options().cache)
    except SettingsError as error:
        fail(str(error), code=2)
    except (WordVectorsError, DownloadError) as error:
        fail(str(error), code=1)


def with_word_vectors(settings: Settings) -> Settings:
    """Return settings whose word vectors are the folder of a map, which workers open at once."""
    if settings.word_vectors is None:
        return settings
    if not os.path.isdir(settings.word_vectors):  # noqa: PTH112 - as in `store_folder`
        click.echo(f"elmo: reading {settings.word_vectors}", err=True)
    folder = word_vector_map(settings.word_vectors, settings.cache)
    return settings.model_copy(update={"word_vectors": folder})
