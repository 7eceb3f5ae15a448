"""The largest body: refused by its announced length, or where the bytes go over."""

from starlette.types import Message, Receive, Scope, Send

from elmo_serve.http.middleware.request_checks import RequestChecks
from tests.support.asgi import Route, http_scope, pieces, respond


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


async def test_other_kinds_of_scope_pass() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "lifespan.startup.complete"})

    assert await respond(RequestChecks(app, (), 1), {"type": "lifespan"}) == {
        "type": "lifespan.startup.complete"
    }
