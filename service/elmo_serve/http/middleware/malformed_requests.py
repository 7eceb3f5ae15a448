"""Refuses requests that the HTTP parser lets pass and that must not reach a route."""

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from elmo_serve.errors import MalformedRequest, UnknownRoute, shown
from elmo_serve.http.request import headers

_VERSIONS: Final = ("1.1", "1.0")
_CLOSE: Final = {"Connection": "close"}


class MalformedRequests:
    """Answers 400 to ambiguous framing and other versions of HTTP, 404 to a line break in a path.

    Content-Length beside Transfer-Encoding is how requests are smuggled past a proxy (RFC 9112,
    6.1). A line break at the end of a path is ignored by Starlette's routes: their patterns end
    with `$`, which also matches before it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if scope["http_version"] not in _VERSIONS:
                raise MalformedRequest("What was sent is not HTTP/1.1.", headers=_CLOSE)
            if headers.is_framed_twice(scope):
                raise MalformedRequest(
                    "The request has both Content-Length and Transfer-Encoding.", headers=_CLOSE
                )
            if "\n" in scope["path"]:
                raise UnknownRoute(f"No route {shown(scope['path'])}; /docs lists them.")
        await self._app(scope, receive, send)
