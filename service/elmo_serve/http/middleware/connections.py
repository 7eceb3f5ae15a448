"""Answers 503 on connections over `ELMO_MAX_CONNECTIONS`."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo_serve.errors import Unavailable
from elmo_serve.http.connection.limits import connection_of
from elmo_serve.http.public_paths import PROBES


class SurplusConnections:
    """Answers 503 and closes; probes and metrics are answered first, because monitoring needs them.

    `LimitedConnection` says which connections are over the limit.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not connection_of(scope).is_surplus:
            await self._app(scope, receive, send)
            return
        if scope["path"] not in PROBES:
            raise Unavailable(
                f"{self._limit} connections are open, no more are allowed (ELMO_MAX_CONNECTIONS).",
                retry_after=1,
                headers={"Connection": "close"},
            )

        async def send_and_close(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        await self._app(scope, receive, send_and_close)
