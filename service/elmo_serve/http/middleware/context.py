"""Request id, time, metrics and access log of every request."""

import logging
import time
from collections.abc import Sequence
from typing import Final

from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo_serve import logs
from elmo_serve.http.connection.limits import connection_of
from elmo_serve.http.public_paths import PROBES
from elmo_serve.http.request import headers
from elmo_serve.http.request.metrics import UNKNOWN, RequestMetrics

_log = logging.getLogger("elmo_serve.access")

_CLIENT_LEFT: Final = 499
"""Status in log and metrics of a request whose client left before the response began."""


class RequestContext:
    """The outermost middleware. Plain ASGI: `BaseHTTPMiddleware` hides disconnects from routes.

    Puts into the `state` of a request: `request_id`, and `account`, a dictionary whose entries
    become fields of the request's line in the access log. Closes connections over the limit after
    their response.
    """

    def __init__(self, app: ASGIApp, metrics: RequestMetrics, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._metrics = metrics
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        connection = connection_of(scope)
        connection.request_started()
        request_id = headers.request_id(scope)
        scope["state"] = {**scope.get("state", {}), "request_id": request_id, "account": {}}
        token = logs.request_id.set(request_id)
        status = _CLIENT_LEFT

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", request_id.encode()),
                    *([(b"connection", b"close")] if connection.is_surplus else ()),
                ]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            connection.request_ended()
            self._note(scope, status, time.perf_counter() - start)
            logs.request_id.reset(token)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = self._route(scope)
        self._metrics.count(scope["method"], route, status, seconds)
        if "is_shed" in scope["state"]:
            return  # `LoadShedder` logs it
        level = logging.DEBUG if route in PROBES else logging.INFO
        if _log.isEnabledFor(level):
            client = scope.get("client")
            fields = {
                "method": scope["method"],
                "route": route,
                "status": status,
                "seconds": round(seconds, 4),
                "client": client[0] if client else "",
                **scope["state"]["account"],
            }
            _log.log(level, "request", extra=fields)

    def _route(self, scope: Scope) -> str:
        """Return the path of the route, also of a request that was answered before routing."""
        route = scope.get("route")
        if route is None:
            fitting = (r for r in self._routes if r.matches(scope)[0] is not Match.NONE)
            route = next(fitting, None)
        return getattr(route, "path", UNKNOWN)
