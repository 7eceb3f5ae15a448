"""What the tests of the client share: a server that does as it is told, and both clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.client.doors import DOORS
from tests.support.scripted_server import Told, telling


@pytest.fixture
def told() -> Iterator[Told]:
    with telling() as it:
        yield it


@pytest.fixture(scope="module", params=DOORS)
def door(request: pytest.FixtureRequest) -> Any:
    """The class of a client: `Client`, and `AsyncClient` behind the same methods."""
    return DOORS[request.param]
