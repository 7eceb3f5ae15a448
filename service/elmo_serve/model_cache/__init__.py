"""The model cache: published models, downloaded once by name and verified on every use."""

from __future__ import annotations

from elmo_serve.model_cache.cache import (
    CacheSettings,
    cache_folder,
    cache_of_environment,
    cache_settings,
    with_cache,
)
from elmo_serve.model_cache.checks import SUMS
from elmo_serve.model_cache.download_error import DownloadError
from elmo_serve.model_cache.fetching import fetch, locate
from elmo_serve.model_cache.transfer import OnProgress

__all__ = [
    "SUMS",
    "CacheSettings",
    "DownloadError",
    "OnProgress",
    "cache_folder",
    "cache_of_environment",
    "cache_settings",
    "fetch",
    "locate",
    "with_cache",
]
