"""Requests on connections over the limit."""

import pytest

from elmo_serve.errors import Unavailable
from elmo_serve.http.middleware.connections import SurplusConnections
from tests.support.asgi import Route, http_scope, respond


class Connection:
    def __init__(self, *, is_surplus: bool) -> None:
        self.is_surplus = is_surplus


async def test_a_connection_within_the_limit_is_served_and_kept() -> None:
    scope = http_scope()
    scope["state"]["connection"] = Connection(is_surplus=False)

    response = await respond(SurplusConnections(Route(), 3), scope)

    assert response["headers"] == [(b"a", b"b")]


async def test_a_connection_over_the_limit_is_refused_and_closed() -> None:
    route, scope = Route(), http_scope()
    scope["state"]["connection"] = Connection(is_surplus=True)

    with pytest.raises(Unavailable, match=r"^3 connections .*ELMO_MAX_CONNECTIONS") as error:
        await respond(SurplusConnections(route, 3), scope)

    assert error.value.headers["Connection"] == "close"
    assert error.value.headers["Retry-After"] == "1"
    assert not route.scopes


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics"])
async def test_monitoring_is_answered_over_the_limit_and_then_closed(path: str) -> None:
    scope = http_scope(path, "GET")
    scope["state"]["connection"] = Connection(is_surplus=True)

    response = await respond(SurplusConnections(Route(), 3), scope)

    assert response["status"] == 200
    assert response["headers"] == [(b"a", b"b"), (b"connection", b"close")]
