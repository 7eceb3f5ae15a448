"""Models by their published names, for the commands that take a model."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from elmo_serve.commands.terminal import fail, fetching

if TYPE_CHECKING:
    from elmo_serve.model_cache import Places
    from elmo_serve.settings import Settings


def located(model: str) -> str:
    """Return the path of a published model, fetched if need be; any other name as it is.

    Says in one line why that cannot be, and ends.
    """
    from elmo_model.catalogue import CATALOGUE
    from elmo_serve.settings import SettingsError

    if model not in CATALOGUE:
        return model
    try:
        return _located(model, places())
    except SettingsError as error:
        fail(str(error), code=2)


def with_located_model(settings: Settings) -> Settings:
    """Return settings whose model is a path where it was the name of a published one.

    Says in one line why that cannot be, and ends.
    """
    from elmo_model.catalogue import CATALOGUE
    from elmo_serve.model_cache import places_of

    if settings.model not in CATALOGUE:
        return settings
    path = _located(settings.model, places_of(settings))
    return settings.model_copy(update={"model": path})


def places(**spoken: str | None) -> Places:
    """Return what the environment says of the cache, or what was `spoken` as an option.

    Raises SettingsError for a value that is not allowed.
    """
    from elmo_serve.model_cache import places_of
    from elmo_serve.settings import from_strings, option, variable

    values = {name: os.environ.get(variable(name)) for name in ("cache", "mirror", "offline")}
    given = {name: value for name, value in spoken.items() if value is not None}
    called = {name: option(name) for name in given if os.environ.get(variable(name)) != given[name]}
    return places_of(from_strings({**values, **given}, called))


def _located(model: str, where: Places) -> str:
    from elmo_serve.model_cache import DownloadError
    from elmo_serve.model_cache import located as fetched

    try:
        with fetching() as show:
            return fetched(model, where, show)
    except DownloadError as error:
        fail(str(error), code=1)
