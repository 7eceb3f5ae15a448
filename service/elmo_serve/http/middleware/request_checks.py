"""Refuses requests that the HTTP parser lets pass and that must not reach a route."""

from collections.abc import Collection
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from elmo_serve.errors import Forbidden, MalformedRequest, UnknownRoute, shown
from elmo_serve.http.request import headers

_VERSIONS: Final = ("1.1", "1.0")
_CLOSE: Final = {"Connection": "close"}
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OTHER_ORIGINS: Final = ("cross-site", "same-site")
"""Values of `Sec-Fetch-Site` for a page of another origin; `same-site` differs in its port or
subdomain."""


class RequestChecks:
    """Answers 400 to ambiguous framing and other versions of HTTP, 404 to a line break in a path.

    Answers 403 to a request other than GET, HEAD and OPTIONS from a page of an origin that is not
    one of `origins`. Browsers send such a request without asking before, if its body has no media
    type; only its answer is kept from the page. Programs other than browsers send no
    `Sec-Fetch-Site`.

    Content-Length beside Transfer-Encoding is how requests are smuggled past a proxy (RFC 9112,
    6.1). A line break at the end of a path is ignored by Starlette's routes: their patterns end
    with `$`, which also matches before it.
    """

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        self._app = app
        self._origins = origins

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
            if scope["method"] not in _SAFE_METHODS:
                self._check_origin(scope)
        await self._app(scope, receive, send)

    def _check_origin(self, scope: Scope) -> None:
        site = headers.first(scope, b"sec-fetch-site")
        if site is None or site.lower() not in _OTHER_ORIGINS or "*" in self._origins:
            return
        origin = headers.first(scope, b"origin") or ""
        if origin.lower() not in self._origins:
            raise Forbidden(
                f"Origin is {shown(origin)} and Sec-Fetch-Site {shown(site)}; pages of another "
                f"origin send {shown(scope['method'])} only from those in ELMO_CORS_ORIGINS."
            )
