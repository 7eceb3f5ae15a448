"""Published models by name: fetched once into a cache folder, and checked from then on."""

from __future__ import annotations

from elmo_serve.model_cache.cache import Places, default_cache, places_of
from elmo_serve.model_cache.checks import SUMS
from elmo_serve.model_cache.download_error import DownloadError
from elmo_serve.model_cache.fetching import fetch, located
from elmo_serve.model_cache.transfer import Show

__all__ = [
    "SUMS",
    "DownloadError",
    "Places",
    "Show",
    "default_cache",
    "fetch",
    "located",
    "places_of",
]
