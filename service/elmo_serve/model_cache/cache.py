"""Where published models are kept, and where they come from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elmo_model.catalogue import PUBLISHED
from elmo_serve.model_cache.download_error import DownloadError

if TYPE_CHECKING:
    from elmo_serve.settings import Settings


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """The cache folder, the address to fetch from, and whether to fetch at all."""

    cache: Path
    mirror: str | None = None
    offline: bool = False
    pause_seconds: float = 1.0  # before another attempt, doubled each time

    @property
    def address(self) -> str:
        """Return where the published layout begins."""
        return (self.mirror or PUBLISHED).rstrip("/")


def cache_settings(settings: Settings) -> CacheSettings:
    """Return where settings say that published models lie."""
    return CacheSettings(settings.cache or default_cache(), settings.mirror, settings.offline)


def default_cache() -> Path:
    """Return the user's cache folder for models (XDG Base Directory Specification).

    Raises DownloadError where there is none.
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    # the specification: a path that is not absolute is to be ignored
    try:
        base = Path(named) if named.startswith("/") else Path.home() / ".cache"
    except RuntimeError as error:  # a user without a home, as in a container
        raise DownloadError("the user has no home folder, expected ELMO_CACHE to be set") from error
    return base / "elmo-serve"
