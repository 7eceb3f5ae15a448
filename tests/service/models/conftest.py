"""A mirror on loopback, and downloads from it without pauses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from elmo_model.models.published import Published
from elmo_serve.models.download import CacheSettings, fetch
from tests.support.download_server import MODEL, Mirror, serving


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with serving() as mirror:
        yield mirror


@pytest.fixture
def download(mirror: Mirror) -> Callable[..., Path]:
    """Fetch a model, by default the tiny one, from the mirror into a cache folder."""

    def download(cache: Path, model: Published = MODEL, *, offline: bool = False) -> Path:
        return fetch(model, CacheSettings(cache, mirror.address, offline, 0.0), lambda *_: None)

    return download
