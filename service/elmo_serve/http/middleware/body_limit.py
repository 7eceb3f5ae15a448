"""The largest request body, by its announced length and by what really comes."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo_serve.errors import TooLarge
from elmo_serve.http import headers


class BodyLimit:
    """Raises TooLarge out of ``receive``, where the route's error handling sees it."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = headers.first(scope, b"content-length") or "0"
        size = 0

        async def receive_some() -> Message:
            nonlocal size
            if announced.isdecimal() and int(announced) > self._limit:
                raise self._refusal(int(announced))
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._limit:
                raise self._refusal(size)
            return message

        await self._app(scope, receive_some, send)

    def _refusal(self, size: int) -> TooLarge:
        return TooLarge(
            f"The body has {size} bytes or more and at most {self._limit} are allowed "
            "(ELMO_MAX_BODY_BYTES)."
        )
