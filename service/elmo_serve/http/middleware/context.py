"""Request id, time, metrics, access log and trace of every request."""

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo_serve import logs
from elmo_serve.http import headers
from elmo_serve.http.connection import connection_of
from elmo_serve.http.middleware.request_checks import PROBES
from elmo_serve.metrics import Metrics
from elmo_serve.tracing import Trace

if TYPE_CHECKING:  # an extra
    from elmo_serve.tracing.tracer import Tracer

_log = logging.getLogger("elmo_serve.access")

_CLIENT_LEFT: Final = 499
"""Status in log and metrics of a request whose client left before the response began."""

UNKNOWN: Final = "unknown"
"""Route of requests that match none."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
"""Methods that are labels; all others share one, so that clients cannot add series."""

_TRACED: Final = ("key", "sentences", "tokens")
"""Fields of the access log that are attributes of the request's span."""


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

    Puts into the `state` of a request: `request_id`; `log_fields`, whose entries are fields of the
    request's line in the access log; and `trace`, if the request is sampled.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        routes: Sequence[BaseRoute],
        tracer: "Tracer | None" = None,
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._routes = routes
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        headers.to_origin_form(scope)
        connection = connection_of(scope)
        request_id = headers.request_id(scope)
        scope["state"] = {**scope.get("state", {}), "request_id": request_id, "log_fields": {}}
        token = logs.request_id.set(request_id)
        trace = None if self._tracer is None else _begin_trace(scope, self._tracer)
        status, size = _CLIENT_LEFT, 0

        async def send_with_id(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                given = message.get("headers", ())
                length = int(dict(given).get(b"content-length", 0))
                message["headers"] = [
                    *given,
                    (b"x-request-id", request_id.encode()),
                    *(
                        [(b"connection", b"close")]
                        if connection.response_starts(scope, length)
                        else ()
                    ),
                    *([(b"traceresponse", trace.header)] if trace is not None else ()),
                ]
            else:
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            scope["state"]["log_fields"]["response_bytes"] = size
            self._note(scope, status, time.perf_counter() - start)
            logs.request_id.reset(token)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = self._route(scope)
        count(self._metrics, scope["method"], route, status, seconds)
        if self._tracer is not None and (trace := scope["state"].get("trace")) is not None:
            _end_trace(scope, self._tracer, trace, route, status)
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


def _begin_trace(scope: Scope, tracer: "Tracer") -> Trace | None:
    """Begin the trace of a request, and put its id into the state; return it if it is sampled."""
    if scope["path"] in PROBES:
        return None
    sent = headers.first(scope, b"traceparent")
    trace = tracer.begin(sent, ",".join(headers.every(scope, b"tracestate")))
    if trace is None:
        return None
    scope["state"]["trace_id"] = scope["state"]["log_fields"]["trace_id"] = trace.id
    if not trace.is_sampled:
        return None
    scope["state"]["trace"] = trace
    return trace


def _end_trace(scope: Scope, tracer: "Tracer", trace: Trace, route: str, status: int) -> None:
    """Make the spans of a request, with OpenTelemetry's names of attributes where it has one."""
    method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
    log_fields, client = scope["state"]["log_fields"], scope.get("client")
    attributes = {
        "http.request.method": method,
        "url.path": scope["path"],
        "url.scheme": scope["scheme"],
        "client.address": client[0] if client else "",
        "http.request.body.size": log_fields.get("request_bytes", 0),
        "http.response.body.size": log_fields["response_bytes"],
        "elmo.request_id": scope["state"]["request_id"],
        **{f"elmo.{name}": log_fields[name] for name in _TRACED if name in log_fields},
    }
    name = "HTTP" if method == "_OTHER" else method
    if route != UNKNOWN:
        name = f"{name} {route}"
        attributes["http.route"] = route
    if status != _CLIENT_LEFT:
        attributes["http.response.status_code"] = status
    tracer.end(trace, name, attributes, str(status) if status >= 500 else None)
