"""API keys, required on every path that is not in `public_paths.OPEN`."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from elmo_serve.errors import Unauthorized
from elmo_serve.http import headers
from elmo_serve.http.public_paths import OPEN


class ApiKeys:
    """Compares with every key in constant time and says nothing of what was sent."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._keys = [_digest(key.encode()) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN:
            if (client := self._known(scope)) is None:
                raise Unauthorized(
                    "Send one of the server's API keys: `Authorization: Bearer KEY`."
                )
            scope["state"]["client"] = client
        await self._app(scope, receive, send)

    def _known(self, scope: Scope) -> str | None:
        """Return a name for the key that was sent, if it is one of the server's."""
        sent = headers.first(scope, b"authorization") or ""
        scheme, _, key = sent.encode("latin-1").partition(b" ")
        digest = _digest(key.strip())
        matches = [hmac.compare_digest(digest, known) for known in self._keys]
        return (
            f"key {matches.index(True)}" if scheme.lower() == b"bearer" and any(matches) else None
        )


def _digest(key: bytes) -> bytes:
    """Return what is compared: of one length, which tells nothing of a key's."""
    return hashlib.sha256(key).digest()
