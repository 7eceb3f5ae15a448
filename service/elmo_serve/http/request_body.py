"""The body of a request, as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from elmo_serve.errors import DeadlineExceeded


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
