"""Request id, time, metrics, access log and attributes of the span of every request."""

import logging
import time
from collections.abc import Sequence
from typing import Any, Final

from opentelemetry.trace import get_current_span
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo_serve import logs
from elmo_serve.http import headers
from elmo_serve.http.checks import PROBES
from elmo_serve.http.connection import connection_of
from elmo_serve.metrics import Metrics

_log = logging.getLogger("elmo_serve.access")

_CLIENT_LEFT: Final = 499
"""Status in log and metrics of a request whose client left before the response began."""

_CLOSE: Final = ((b"connection", b"close"),)

UNKNOWN: Final = "unknown"
"""Route of requests that match none."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
"""Methods that are labels; all others share one, so that clients cannot add series."""


def count(metrics: Metrics, method: str, route: str, status: int, seconds: float) -> None:
    """Count one request; `route` is the path of a route, or `UNKNOWN`."""
    if route == UNKNOWN:
        method = "any"
    elif method not in _METHODS:
        method = "other"
    metrics.http_requests.labels(method, route, str(status)).inc()
    metrics.http_request_duration.labels(route).observe(seconds)


def count_unparsed(metrics: Metrics, status: int) -> None:
    """Count a request that ended before its head was parsed."""
    metrics.http_requests.labels("any", UNKNOWN, str(status)).inc()


class RequestContext:
    """The outermost middleware. Plain ASGI: `BaseHTTPMiddleware` hides disconnects from routes.

    Puts into the `state` of a request: `request_id`; `has_started`, whether the response has; and
    `log_fields`, whose entries are fields of the request's line in the access log and, if they are
    there when the response starts, attributes of its span.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        routes: Sequence[BaseRoute],
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        headers.to_origin_form(scope)
        connection = connection_of(scope)
        request_id = headers.request_id(scope)
        fields: dict[str, Any] = {"request_bytes": 0}
        known = {"request_id": request_id, "log_fields": fields, "has_started": False}
        scope["state"] = {**scope.get("state", {}), **known}
        token = logs.request_id.set(request_id)
        span = get_current_span()
        if span.is_recording():
            span.set_attribute("elmo.request_id", request_id)
            if scope["query_string"]:  # it may hold a text that was sent there by mistake
                span.set_attribute("url.query", "REDACTED")
        status, size = _CLIENT_LEFT, 0

        async def send_with_id(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status, scope["state"]["has_started"] = message["status"], True
                given = message.get("headers", ())
                length = int(dict(given).get(b"content-length", 0))
                ending = _CLOSE if connection.response_starts(scope, length) else ()
                message["headers"] = [*given, (b"x-request-id", request_id.encode()), *ending]
                if span.is_recording():
                    span.set_attributes({f"elmo.{name}": each for name, each in fields.items()})
            else:
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            if status == _CLIENT_LEFT and connection.refused is not None:
                status = connection.refused
            fields["response_bytes"] = size
            self._note(scope, status, time.perf_counter() - start)
            logs.request_id.reset(token)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = self._route(scope)
        count(self._metrics, scope["method"], route, status, seconds)
        level = logging.DEBUG if route in PROBES else logging.INFO
        if _log.isEnabledFor(level):
            client = scope.get("client")
            fields = {
                "method": scope["method"],
                "route": route,
                "status": status,
                "seconds": round(seconds, 4),
                "client": client[0] if client else "",
                **scope["state"]["log_fields"],
            }
            _log.log(level, "request", extra=fields)

    def _route(self, scope: Scope) -> str:
        """Return the path of the route, also of a request that was answered before routing."""
        route = scope.get("route")
        if route is None:
            fitting = (r for r in self._routes if r.matches(scope)[0] is not Match.NONE)
            route = next(fitting, None)
        return getattr(route, "path", UNKNOWN)
