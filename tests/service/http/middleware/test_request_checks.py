"""The checks of a request's head: what they refuse reaches no route."""

import pytest
from starlette.types import Message, Scope

from elmo_serve.errors import (
    MalformedRequest,
    Overloaded,
    ServiceError,
    Unavailable,
    UnknownRoute,
)
from elmo_serve.http.middleware.request_checks import (
    RequestChecks,
    check_head,
    connection_check,
)
from tests.support.asgi import Route, http_scope, respond


@pytest.mark.parametrize(
    ("scope", "error", "message"),
    [
        ({**http_scope(), "http_version": "2"}, MalformedRequest, "not HTTP/1.1"),
        ({**http_scope(), "http_version": "0.9"}, MalformedRequest, "not HTTP/1.1"),
        (
            http_scope(content_length="3", transfer_encoding="chunked"),
            MalformedRequest,
            "both Content-Length and Transfer-Encoding",
        ),
        (http_scope("/info\n"), UnknownRoute, r"No route '/info\\n'"),
        (http_scope("/in\nfo"), UnknownRoute, "No route"),
    ],
)
def test_a_malformed_request_is_refused(
    scope: Scope, error: type[ServiceError], message: str
) -> None:
    with pytest.raises(error, match=message) as refusal:
        check_head(scope)

    closes = refusal.value.headers.get("Connection") == "close"
    assert closes == (error is MalformedRequest)


@pytest.mark.parametrize(
    "scope",
    [
        http_scope(),
        http_scope(content_length="3"),
        http_scope(transfer_encoding="chunked"),
        {**http_scope(), "http_version": "1.0"},
        {"type": "lifespan"},
    ],
)
async def test_any_other_request_passes(scope: Scope) -> None:
    assert (await respond(RequestChecks(Route(), [check_head], 10), scope))["status"] == 200


class Connection:
    is_surplus = True


def test_a_connection_over_the_limit_is_refused() -> None:
    scope = http_scope()
    scope["state"]["connection"] = Connection()

    with pytest.raises(Unavailable, match=r"^3 connections .*ELMO_MAX_CONNECTIONS") as error:
        connection_check(3)(scope)

    assert error.value.headers["Retry-After"] == "1"


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics"])
def test_monitoring_is_answered_over_the_limit(path: str) -> None:
    scope = http_scope(path, "GET")
    scope["state"]["connection"] = Connection()

    connection_check(3)(scope)


async def test_what_a_check_refuses_is_not_received_and_reaches_no_route() -> None:
    async def receive() -> Message:
        raise AssertionError("a piece was received")

    def check(scope: Scope) -> None:
        raise Overloaded("full", retry_after=1)

    route = Route()

    response = await respond(RequestChecks(route, [check], 10), http_scope(), receive)

    assert response["status"] == 503
    assert (b"retry-after", b"1") in response["headers"]
    assert not route.scopes
