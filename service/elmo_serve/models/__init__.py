"""Models by name: where their files are, downloaded once and verified on every use.

`elmo_serve.models.opening` opens them; it needs torch.
"""

from __future__ import annotations

from elmo_serve.models.cache import (
    CacheSettings,
    DownloadError,
    cache_folder,
    cache_of_environment,
    cache_settings,
    with_cache,
)
from elmo_serve.models.checks import SUMS
from elmo_serve.models.fetching import Progress, fetch, locate
from elmo_serve.models.transfer import OnProgress

__all__ = [
    "SUMS",
    "CacheSettings",
    "DownloadError",
    "OnProgress",
    "Progress",
    "cache_folder",
    "cache_of_environment",
    "cache_settings",
    "fetch",
    "locate",
    "with_cache",
]
