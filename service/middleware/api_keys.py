"""API keys: asked for on every route but the probes and the metrics."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import Unauthorized

_OPEN = ("/health/live", "/health/ready", "/metrics")


class ApiKeys:
    """Compares with every key in constant time and says nothing of what was sent."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in _OPEN and not self._is_known(scope):
            raise Unauthorized("Send one of the server's API keys: `Authorization: Bearer KEY`.")
        await self._app(scope, receive, send)

    def _is_known(self, scope: Scope) -> bool:
        sent = next((v for n, v in scope["headers"] if n == b"authorization"), b"")
        scheme, _, key = sent.partition(b" ")
        matches = [hmac.compare_digest(key.strip(), known) for known in self._keys]
        return scheme.lower() == b"bearer" and any(matches)
