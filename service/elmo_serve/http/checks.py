"""Requests that are refused or fail: checks before the routes, and the answers to all errors.

A check looks at the scope of a request before its body is received, and raises a ServiceError: what
it refuses reaches no route.
"""

import ipaddress
from collections.abc import Callable, Collection, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from elmo_model.errors import shown
from elmo_serve.errors import (
    Forbidden,
    MalformedRequest,
    Unavailable,
    UnknownRoute,
)
from elmo_serve.http import headers
from elmo_serve.http.connection import connection_of
from elmo_serve.http.deadline import DisconnectError
from elmo_serve.http.error_responses import response, translated

_VERSIONS: Final = ("1.1", "1.0")
_CLOSE: Final = {"Connection": "close"}

PROBES: Final = frozenset({"/health/live", "/health/ready", "/health", "/metrics"})
"""Asked for by monitoring: answered without a key and on connections over the limit, and logged at
debug level, so that they do not fill the log."""


Check = Callable[[Scope], None]


class RequestChecks:
    """Runs the checks of the head in their order, and answers every error.

    The first check that raises answers the request. Exceptions of the application become responses
    as well.
    """

    def __init__(self, app: ASGIApp, checks: Sequence[Check]) -> None:
        self._app = app
        self._checks = checks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            for check in self._checks:
                check(scope)
            if (scope["method"], scope["path"]) == ("OPTIONS", "*"):  # of the server as a whole
                await Response(status_code=204)(scope, receive, send)
                return
            await self._app(scope, receive, send)
        except DisconnectError:
            return  # there is nobody to send a response to
        except Exception as error:  # broad: every request gets a response
            known = translated(error, Request(scope))
            if scope["state"]["has_started"]:
                raise
            await response(known, scope)(scope, receive, send)


def check_head(scope: Scope) -> None:
    """Answer 400 to ambiguous framing and other versions of HTTP, 404 to a line break in a path.

    Content-Length beside Transfer-Encoding is how requests are smuggled past a proxy, and HTTP/1.0
    has no Transfer-Encoding (RFC 9112, 6.1). A line break at the end of a path is ignored by
    Starlette's routes: their patterns end with `$`, which also matches before it.
    """
    if scope["http_version"] not in _VERSIONS:
        raise MalformedRequest("What was sent is not HTTP/1.1.", headers=_CLOSE)
    if headers.first(scope, b"transfer-encoding") is not None:
        if scope["http_version"] == "1.0":
            raise MalformedRequest("HTTP/1.0 has no Transfer-Encoding.", headers=_CLOSE)
        if headers.first(scope, b"content-length") is not None:
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


def host_check(origins: Collection[str]) -> Check:
    """Answer 403 to a `Host` that anybody may own: DNS rebinding.

    The owner of a domain can point it to 127.0.0.1. For a browser, a page of that domain and the
    server here then have one origin. Nobody owns IP addresses in this way, `localhost` or names
    without a dot. The hosts of `origins` are allowed.
    """
    hosts = {_host(origin.rpartition("/")[2]) for origin in origins}

    def check(scope: Scope) -> None:
        host = _host(headers.first(scope, b"host") or "")
        if not (_is_local(host) or host in hosts or "*" in origins):
            raise Forbidden(
                f"Host is {shown(host)}, expected an IP address, localhost or a host of "
                "ELMO_CORS_ORIGINS."
            )

    return check


def _host(authority: str) -> str:
    """Return the host of `host:port`, in lower case and without brackets."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower()
    return authority.partition(":")[0].rstrip(".").lower()


def _is_local(host: str) -> bool:
    if "." not in host or host.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
