"""Request id, clock and account of every request: what is logged and measured, once."""

from __future__ import annotations

import logging
import time

from prometheus_client import Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo_serve import logs
from elmo_serve.http import headers
from elmo_serve.http.public_paths import PROBES
from elmo_serve.metrics import Metrics

_log = logging.getLogger("elmo_serve.access")
_CLIENT_LEFT = 499


class RequestContext:
    """Plain ASGI, because a wrapper that reads ahead hides disconnects."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        request_id = headers.request_id(scope)
        account: dict[str, object] = {}
        scope["state"] = {**scope.get("state", {}), "request_id": request_id, "account": account}
        token = logs.request_id.set(request_id)
        status = _CLIENT_LEFT

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", request_id.encode()),
                ]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            self._note(scope, status, time.perf_counter() - start, account)
            logs.request_id.reset(token)

    def _note(self, scope: Scope, status: int, seconds: float, account: dict[str, object]) -> None:
        route = getattr(scope.get("route"), "path", "unknown")
        method = scope["method"] if route != "unknown" else "any"
        count, duration = self._meters(method, route, status)
        count.inc()
        duration.observe(seconds)
        level = logging.DEBUG if route in PROBES else logging.INFO
        if _log.isEnabledFor(level):
            fields = {
                "method": scope["method"],
                "route": route,
                "status": status,
                "seconds": round(seconds, 4),
                **account,
            }
            _log.log(level, "request", extra=fields)

    def _meters(self, method: str, route: str, status: int) -> tuple[Counter, Histogram]:
        """Return the two metrics with their labels, whose look-up takes a lock and some time."""
        known = self._known.get((method, route, status))
        if known is None:
            known = self._known[method, route, status] = (
                self._metrics.http_requests.labels(method, route, str(status)),
                self._metrics.http_request_duration.labels(route),
            )
        return known
