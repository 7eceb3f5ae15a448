"""Fixtures of the client's tests: both clients, a real server, and one that follows a script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from elmo_client import Client
from tests.client.both_clients import CLIENTS
from tests.conftest import KEY
from tests.support.servers import Running, running
from tests.support.training import write_bundle


@pytest.fixture(scope="module", params=CLIENTS)
def client_class(request: pytest.FixtureRequest) -> Any:
    """`Client`, and `AsyncClient` behind the same methods."""
    return CLIENTS[request.param]


@pytest.fixture(scope="module")
def sdk(client_class: Any, server: Running) -> Iterator[Client]:
    with client_class(server.url) as client:
        yield client


@pytest.fixture(scope="module")
def narrow_sdk(client_class: Any, narrow: Running) -> Iterator[Client]:
    """A client of the server with small limits and an API key."""
    with client_class(narrow.url, api_key=KEY, in_flight=2) as client:
        yield client


@pytest.fixture(scope="session")
def scoring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose model has a softmax."""
    folder = tmp_path_factory.mktemp("scoring")
    model = write_bundle(folder / "bilm_tf")
    with running(folder, model=model, cache=folder / "cache") as started:
        yield started
