"""The largest request body, by its announced length and by the bytes that come."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo_serve.errors import TooLarge
from elmo_serve.http import headers
from elmo_serve.http.connection.limits import connection_of


class BodyLimit:
    """Raises TooLarge out of `receive`, so that the route's error handling sees it.

    Notes the bytes that came for the access log. Tells the connection when a body was not read to
    its end: its rest is thrown away, and has a limited time to come.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = headers.content_length(scope) or 0
        is_unread = bool(announced) or headers.is_chunked(scope)
        size = 0

        async def receive_some() -> Message:
            nonlocal size, is_unread
            if announced > self._limit:
                raise self._refusal(announced)
            message = await receive()
            size += len(message.get("body", b""))
            is_unread = message.get("more_body", False)
            if size > self._limit:
                raise self._refusal(size)
            return message

        try:
            await self._app(scope, receive_some, send)
        finally:
            scope["state"]["account"]["request_bytes"] = size
            if is_unread:
                connection_of(scope).body_unread()

    def _refusal(self, size: int) -> TooLarge:
        return TooLarge(
            f"The body has {size} bytes or more and at most {self._limit} are allowed "
            "(ELMO_MAX_BODY_BYTES)."
        )
