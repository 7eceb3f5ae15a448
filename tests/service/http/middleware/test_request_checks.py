"""Requests that the HTTP parser lets pass and that reach no route."""

import pytest
from starlette.types import Scope

from elmo_serve.errors import Forbidden, MalformedRequest, ServiceError, UnknownRoute
from elmo_serve.http.middleware.request_checks import RequestChecks
from tests.support.asgi import Route, http_scope, respond

HERE = "https://example.org"
"""An allowed origin."""


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
        await respond(RequestChecks(route, ()), scope)

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
    assert (await respond(RequestChecks(Route(), ()), scope))["status"] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "PURGE"])
@pytest.mark.parametrize(
    "sent",
    [
        {"sec_fetch_site": "cross-site", "origin": "https://example.com"},
        {"sec_fetch_site": "same-site", "origin": "http://localhost:3000"},
        {"sec_fetch_site": "Cross-Site", "origin": "null"},
        {"sec_fetch_site": "cross-site"},
    ],
)
async def test_a_page_of_another_origin_changes_nothing(method: str, sent: dict[str, str]) -> None:
    route = Route()

    with pytest.raises(Forbidden, match="ELMO_CORS_ORIGINS") as refusal:
        await respond(RequestChecks(route, (HERE,)), http_scope("/tasks/a", method, **sent))

    assert not route.scopes
    assert repr(sent.get("origin", "")) in refusal.value.detail
    assert method in refusal.value.detail


@pytest.mark.parametrize(
    ("method", "sent", "origins"),
    [
        ("GET", {"sec_fetch_site": "cross-site", "origin": "https://example.com"}, ()),
        ("HEAD", {"sec_fetch_site": "cross-site"}, ()),
        ("OPTIONS", {"sec_fetch_site": "cross-site", "origin": "https://example.com"}, ()),
        ("POST", {"sec_fetch_site": "same-origin", "origin": "http://localhost:8000"}, ()),
        ("POST", {"sec_fetch_site": "none"}, ()),
        ("POST", {"sec_fetch_site": "cross-site", "origin": HERE}, ("http://a", HERE)),
        ("PUT", {"sec_fetch_site": "cross-site", "origin": "https://example.com"}, ("*",)),
        ("POST", {"origin": "https://example.com"}, ()),
        ("DELETE", {}, ()),
    ],
)
async def test_other_origins_read_and_allowed_ones_write(
    method: str, sent: dict[str, str], origins: tuple[str, ...]
) -> None:
    app = RequestChecks(Route(), origins)

    assert (await respond(app, http_scope("/tasks/a", method, **sent)))["status"] == 200
