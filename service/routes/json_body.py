"""The JSON body of a request: what its headers must say, and the bytes as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from service import headers
from service.encodings import json_text
from service.errors import DeadlineExceeded, UnsupportedMediaType, shown

_MEDIA_TYPE = json_text.ENCODING.media_type


def check(scope: Scope) -> None:
    """Raise UnsupportedMediaType for a body that says it is something else, or compressed."""
    sent = headers.first(scope, b"content-type")
    if sent is not None and sent.partition(";")[0].strip().lower() != _MEDIA_TYPE:
        raise UnsupportedMediaType(f"Content-Type is {shown(sent)}; a request is {_MEDIA_TYPE}.")
    coding = headers.first(scope, b"content-encoding")
    if coding is not None and coding.strip().lower() != "identity":
        raise UnsupportedMediaType(
            f"Content-Encoding is {shown(coding)}; a request body is not compressed.",
            headers={"Accept-Encoding": "identity"},
        )


async def read(receive: Receive, timeout_seconds: float) -> bytes:
    """Return the whole body; raises ClientDisconnect, or DeadlineExceeded when it takes longer."""
    try:
        async with asyncio.timeout(timeout_seconds):
            return b"".join([chunk async for chunk in chunks(receive)])
    except TimeoutError:
        raise not_come(timeout_seconds) from None


def not_come(timeout_seconds: float) -> DeadlineExceeded:
    """Return the error for a body that takes too long."""
    return DeadlineExceeded(f"The body had not come within {timeout_seconds:g} s.")


async def chunks(receive: Receive) -> AsyncIterator[bytes]:
    """Yield the body; raises ClientDisconnect when the client leaves in the middle."""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        yield message.get("body", b"")
        more = message.get("more_body", False)
