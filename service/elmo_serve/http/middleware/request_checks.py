"""Requests that are refused or fail: the checks before the routes, and responses for all errors.

A check looks at the scope of a request before its body is received, and raises a ServiceError: what
it refuses reaches no route.
"""

from collections.abc import Callable, Sequence
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo_model.errors import shown
from elmo_serve.errors import (
    MalformedRequest,
    TooLarge,
    Unavailable,
    UnknownRoute,
)
from elmo_serve.http import headers
from elmo_serve.http.calls.deadline import DisconnectError
from elmo_serve.http.connection import connection_of
from elmo_serve.http.error_responses import response, translated

_VERSIONS: Final = ("1.1", "1.0")
_CLOSE: Final = {"Connection": "close"}

PROBES: Final = frozenset({"/health/live", "/health/ready", "/health", "/metrics"})
"""Asked for by monitoring: answered without a key and on connections over the limit, and logged at
debug level, so that they do not fill the log."""


Check = Callable[[Scope], None]


class RequestChecks:
    """Runs the checks of the head in their order, bounds the body, and answers every error.

    The first check that raises answers the request. A body of more than `max_bytes`, by its
    announced length or by the bytes that come, raises TooLarge out of `receive`. Exceptions of the
    application become responses as well. Notes the bytes that came for the access log.
    """

    def __init__(self, app: ASGIApp, checks: Sequence[Check], max_bytes: int) -> None:
        self._app = app
        self._checks = checks
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = headers.content_length(scope) or 0
        size, has_started = 0, False

        async def receive_some() -> Message:
            nonlocal size
            self._check_size(announced)
            message = await receive()
            size += len(message.get("body", b""))
            self._check_size(size)
            return message

        async def send_and_note(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            for check in self._checks:
                check(scope)
            await self._app(scope, receive_some, send_and_note)
        except DisconnectError:
            return  # there is nobody to send a response to
        except Exception as error:  # broad: every request gets a response
            known = translated(error, Request(scope))
            if has_started:
                raise
            await response(known, scope)(scope, receive, send_and_note)
        finally:
            scope["state"]["log_fields"]["request_bytes"] = size

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            raise TooLarge(
                f"The body has {size} bytes or more and at most {self._max_bytes} are allowed "
                "(ELMO_MAX_BODY_BYTES)."
            )


def check_head(scope: Scope) -> None:
    """Answer 400 to ambiguous framing and other versions of HTTP, 404 to a line break in a path.

    Content-Length beside Transfer-Encoding is how requests are smuggled past a proxy (RFC 9112,
    6.1). A line break at the end of a path is ignored by Starlette's routes: their patterns end
    with `$`, which also matches before it.
    """
    if scope["http_version"] not in _VERSIONS:
        raise MalformedRequest("What was sent is not HTTP/1.1.", headers=_CLOSE)
    if headers.is_framed_twice(scope):
        raise MalformedRequest(
            "The request has both Content-Length and Transfer-Encoding.", headers=_CLOSE
        )
    if "\n" in scope["path"]:
        raise UnknownRoute(f"No route {shown(scope['path'])}; /docs lists them.")


def connection_check(limit: int) -> Check:
    """Answer 503 on connections over `limit`, which `RequestContext` closes after the response.

    Probes and metrics are answered, because monitoring needs them. `Http11` says which
    connections are over the limit.
    """

    def check(scope: Scope) -> None:
        if connection_of(scope).is_surplus and scope["path"] not in PROBES:
            raise Unavailable(
                f"{limit} connections are open, no more are allowed (ELMO_MAX_CONNECTIONS).",
                retry_after=1,
            )

    return check
