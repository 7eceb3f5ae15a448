"""Where the cache folder is, and which server the models come from."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import platformdirs

from elmo_model.errors import ElmoError

if TYPE_CHECKING:  # `elmo embed --server` needs no pydantic
    from elmo_model.models.published import File
    from elmo_serve.settings import Settings

OnProgress = Callable[[str, int, int], None]
"""Called with the name of a file, the bytes on the disk and the bytes of the whole file."""

PART: Final = ".part"
_VERSION: Final = ".part.tag"  # the ETag or Last-Modified of the version that a part is from


class DownloadError(ElmoError):
    """A published model cannot be had. The message is one line: file or URL, found, expected."""


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """The cache folder, an optional mirror, and whether the network may be used.

    `pause_seconds` is the wait after the first failed attempt of a download; each further wait is
    twice as long. Four waits of 1, 1, 2 and 4 seconds separate five attempts.
    """

    cache: Path
    mirror: str | None = None
    offline: bool = False
    pause_seconds: float = 1.0


def cache_folder(settings: Settings) -> Path | None:
    """Return the cache folder of a server; None where none is set and the user has no home."""
    if settings.cache is not None:
        return settings.cache
    try:
        return platformdirs.user_cache_path("elmo-serve")
    except RuntimeError:  # a user without a home, as in a container
        return None


def with_cache(settings: Settings) -> Settings:
    """Return settings with the cache folder of this machine, as a server is started with."""
    return settings.model_copy(update={"cache": cache_folder(settings)})


def cache_settings(settings: Settings) -> CacheSettings:
    """Return the cache settings of a server. Raises DownloadError for a user without a home."""
    if (folder := cache_folder(settings)) is None:
        raise DownloadError("the user has no home folder, expected ELMO_CACHE to be set")
    return CacheSettings(folder, settings.mirror, settings.offline)


def cache_of_environment(**options: str | None) -> CacheSettings:
    """Return the cache settings of ELMO_CACHE, ELMO_MIRROR and ELMO_OFFLINE.

    `options` of a command that are not None take the place of their variables. Raises SettingsError
    for a value that is not allowed, and DownloadError as `cache_settings`.
    """
    from elmo_serve.settings import option, variable  # noqa: PLC0415
    from elmo_serve.settings.text import from_strings  # noqa: PLC0415

    values = {name: os.environ.get(variable(name)) for name in ("cache", "mirror", "offline")}
    given = {name: value for name, value in options.items() if value is not None}
    called = {name: option(name) for name in given if values[name] != given[name]}
    return cache_settings(from_strings({**values, **given}, called))


def version_file(part: Path) -> Path:
    """Return the file that records which version a partial file is from."""
    return part.with_name(part.name.removesuffix(PART) + _VERSION)


def check_size(label: str, size: int, file: File) -> None:
    """Raise DownloadError, whose message begins with `label`, if `size` (bytes) is out of range."""
    if not file.min_bytes <= size <= file.max_bytes:
        raise DownloadError(
            f"{label}: has {size:,} bytes, expected {file.min_bytes:,} to {file.max_bytes:,}"
        )
