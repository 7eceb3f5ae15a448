"""Where the cache folder is, and which server the models come from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elmo_serve.model_cache.download_error import DownloadError

if TYPE_CHECKING:
    from elmo_serve.settings import Settings


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


def cache_settings(settings: Settings) -> CacheSettings:
    """Return the cache settings of a server. Raises DownloadError as `default_cache` does."""
    return CacheSettings(settings.cache or default_cache(), settings.mirror, settings.offline)


def default_cache() -> Path:
    """Return the user's cache folder for models (XDG Base Directory Specification).

    Raises DownloadError where the user has no home folder.
    """
    configured = os.environ.get("XDG_CACHE_HOME", "")
    # The specification says to ignore a relative path.
    try:
        base = Path(configured) if configured.startswith("/") else Path.home() / ".cache"
    except RuntimeError as error:  # a user without a home, as in a container
        raise DownloadError("the user has no home folder, expected ELMO_CACHE to be set") from error
    return base / "elmo-serve"
