"""The checks of a request: what they refuse reaches no route, and every exception is answered."""

import errno

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from elmo_serve.errors import TYPE_PREFIX, Overloaded
from elmo_serve.http.checks import RequestChecks
from tests.support.http_messages import ERRORS

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
        scope["state"] = {"request_id": "id", "has_started": False}
        await RequestChecks(app, ())(scope, receive, send)

    transport = httpx.ASGITransport(with_id)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        answer = await client.get("/")
        foreign = await client.get("/v1/embeddings")

    assert answer.json()["type"] == TYPE_PREFIX + slug
    assert answer.status_code == STATUS[slug]
    assert set(foreign.json()) == {"error"}
    assert "secret" not in answer.text + foreign.text
