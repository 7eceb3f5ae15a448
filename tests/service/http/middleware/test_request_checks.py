"""The checks of a request: what they refuse reaches no route, and every exception is answered."""

import errno

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from elmo_serve.errors import (
    TYPE_PREFIX,
    Overloaded,
)
from elmo_serve.http.middleware.request_checks import (
    RequestChecks,
    connection_check,
)
from tests.support.asgi import Route, http_scope, pieces, respond
from tests.support.errors import ERRORS


class Connection:
    is_surplus = True


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics"])
def test_monitoring_is_answered_over_the_limit(path: str) -> None:
    scope = http_scope(path, "GET")
    scope["state"]["connection"] = Connection()

    connection_check(3)(scope)


async def test_a_body_of_the_limit_passes() -> None:
    route = Route()

    response = await respond(
        RequestChecks(route, (), 10), http_scope(content_length="10"), pieces(b"x" * 10)
    )

    assert (response["status"], route.body) == (200, b"x" * 10)


async def test_a_body_that_announces_more_is_refused_before_it_is_received() -> None:
    async def receive() -> Message:
        raise AssertionError("a piece was received")

    scope = http_scope(content_length="11")
    assert (await respond(RequestChecks(Route(), (), 10), scope, receive))["status"] == 413


async def test_a_body_without_a_length_is_refused_where_it_goes_over() -> None:
    route = Route()

    response = await respond(
        RequestChecks(route, (), 10), http_scope(), pieces(b"x" * 6, b"x" * 6, b"x" * 6)
    )

    assert response["status"] == 413
    assert route.body == b"x" * 6


async def test_a_route_that_needs_no_body_is_answered_whatever_is_announced() -> None:
    response = await respond(
        RequestChecks(Route(reads=False), (), 10), http_scope(content_length="11")
    )

    assert response["status"] == 200


STATUS = {error.slug: error.status for error in ERRORS}


@pytest.mark.parametrize(
    ("error", "slug"),
    [
        (OSError(errno.ENOMEM, "secret"), "unavailable"),
        (OSError(errno.EMFILE, "secret"), "unavailable"),
        (MemoryError("secret"), "unavailable"),
        (OSError(errno.EIO, "secret"), "internal"),
        (KeyError("secret"), "internal"),
        (Overloaded("full", retry_after=2), "overloaded"),
    ],
)
async def test_every_exception_becomes_an_error_of_the_api(error: Exception, slug: str) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise error

    async def with_id(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {"request_id": "id", "log_fields": {}}
        await RequestChecks(app, (), 10)(scope, receive, send)

    transport = httpx.ASGITransport(with_id)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        answer = await client.get("/")
        foreign = await client.get("/v1/embeddings")

    assert answer.json()["type"] == TYPE_PREFIX + slug
    assert answer.status_code == STATUS[slug]
    assert set(foreign.json()) == {"error"}
    assert "secret" not in answer.text + foreign.text
