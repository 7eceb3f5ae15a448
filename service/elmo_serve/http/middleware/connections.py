"""The answer to a connection over the limit, which ``Connection`` tells from the others."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from elmo_serve.errors import Unavailable
from elmo_serve.http.public_paths import PROBES


class SurplusConnections:
    """Refuses what comes over them; not the probes and the metrics, which are wanted most then."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] == "http"
            and "is_surplus" in scope["state"]
            and scope["path"] not in PROBES
        ):
            raise Unavailable(
                f"{self._limit} connections are open, no more are allowed (ELMO_MAX_CONNECTIONS).",
                retry_after=1,
            )
        await self._app(scope, receive, send)
