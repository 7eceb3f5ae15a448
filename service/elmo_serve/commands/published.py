"""Models by their published names, for the commands that take a model."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from elmo_serve.commands.terminal import fail, fetching

if TYPE_CHECKING:
    from elmo_serve.model_cache import CacheSettings
    from elmo_serve.settings import Settings


def resolve_model(model: str) -> str:
    """Return the path of a published model, fetched if need be; any other name as it is.

    Says in one line why that cannot be, and ends.
    """
    from elmo_model.catalogue import CATALOGUE
    from elmo_serve.settings import SettingsError

    if model not in CATALOGUE:
        return model
    try:
        return _fetched(model, places())
    except SettingsError as error:
        fail(str(error), code=2)


def with_resolved_model(settings: Settings) -> Settings:
    """Return settings whose model is a path where it was the name of a published one.

    Says in one line why that cannot be, and ends.
    """
    from elmo_model.catalogue import CATALOGUE
    from elmo_serve.model_cache import cache_settings

    if settings.model not in CATALOGUE:
        return settings
    path = _fetched(settings.model, cache_settings(settings))
    return settings.model_copy(update={"model": path})


def places(**spoken: str | None) -> CacheSettings:
    """Return what the environment says of the cache, or what was `spoken` as an option.

    Raises SettingsError for a value that is not allowed.
    """
    from elmo_serve.model_cache import cache_settings
    from elmo_serve.settings import from_strings, option, variable

    values = {name: os.environ.get(variable(name)) for name in ("cache", "mirror", "offline")}
    given = {name: value for name, value in spoken.items() if value is not None}
    called = {name: option(name) for name in given if os.environ.get(variable(name)) != given[name]}
    return cache_settings(from_strings({**values, **given}, called))


def _fetched(model: str, where: CacheSettings) -> str:
    from elmo_serve.model_cache import DownloadError, locate

    try:
        with fetching() as show:
            return locate(model, where, show)
    except DownloadError as error:
        fail(str(error), code=1)
