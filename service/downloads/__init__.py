"""Published models by name: fetched once into a cache folder, and checked from then on."""

from __future__ import annotations

from service.downloads.checks import SUMS
from service.downloads.download_error import DownloadError
from service.downloads.fetching import fetch, located
from service.downloads.places import Places, default_cache, places_of
from service.downloads.transfer import Show

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
