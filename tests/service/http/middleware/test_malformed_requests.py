"""Requests that the HTTP parser lets pass and that reach no route."""

import pytest
from starlette.types import Scope

from elmo_serve.errors import MalformedRequest, ServiceError, UnknownRoute
from elmo_serve.http.middleware.malformed_requests import MalformedRequests
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
async def test_a_malformed_request_is_refused(
    scope: Scope, error: type[ServiceError], message: str
) -> None:
    route = Route()

    with pytest.raises(error, match=message) as refusal:
        await respond(MalformedRequests(route), scope)

    assert not route.scopes
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
    assert (await respond(MalformedRequests(Route()), scope))["status"] == 200
