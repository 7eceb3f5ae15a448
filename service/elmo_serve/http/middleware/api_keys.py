"""API keys, required of every request that is not `public_paths.is_open`."""

import hashlib
import hmac
from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from elmo_serve.errors import Unauthorized
from elmo_serve.http.public_paths import is_open
from elmo_serve.http.request import headers


class KeyRing:
    """The server's keys with their names. Every key is compared, in constant time."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._names = list(keys.values())
        self._digests = [_digest(key.encode()) for key in keys]

    def name(self, scope: Scope) -> str | None:
        """Return the name of the key that was sent; None when it is none of the server's."""
        sent = headers.first(scope, b"authorization") or ""
        scheme, _, key = sent.encode("latin-1").partition(b" ")
        digest = _digest(key.strip())
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        if scheme.lower() != b"bearer" or not any(matches):
            return None
        return self._names[matches.index(True)]


class ApiKeys:
    """Answers 401 to requests without one of `keys`, which maps each key to its name.

    The name stands for the client in quotas and in the access log; the key itself is written
    nowhere.
    """

    def __init__(self, app: ASGIApp, keys: Mapping[str, str]) -> None:
        self._app = app
        self._keys = KeyRing(keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not is_open(scope["method"], scope["path"]):
            name = self._keys.name(scope)
            if name is None:
                raise Unauthorized(
                    "Send one of the server's API keys: `Authorization: Bearer KEY`."
                )
            scope["state"]["client"] = f"key {name}"
            scope["state"]["account"]["key"] = name
        await self._app(scope, receive, send)


def _digest(key: bytes) -> bytes:
    """Return a digest of one length, so that comparing tells nothing of a key's length."""
    return hashlib.sha256(key).digest()
