"""The API keys of a server: which requests need one, and whose a key is."""

import hashlib
import logging
from collections.abc import Mapping
from typing import Final

from prometheus_client import Counter
from starlette.types import Scope

from elmo_serve.errors import Unauthorized
from elmo_serve.http import headers
from elmo_serve.http.checks import PROBES
from elmo_serve.settings import Settings
from elmo_serve.settings.values import read_keys, stamp_of
from elmo_serve.watch import Watch

OPEN: Final = PROBES | {"/", "/docs", "/openapi.json"}
"""GET of these is answered without an API key: none holds data of the model or of a client."""

_OPEN_FOLDERS: Final = ("/docs/", "/page/")
"""Likewise for the files of the pages `/docs` and `/`: scripts, styles and icons."""

_log = logging.getLogger("elmo_serve")


def is_open(method: str, path: str) -> bool:
    """Tell whether a request needs no API key."""
    return method in ("GET", "HEAD") and (path in OPEN or path.startswith(_OPEN_FOLDERS))


class KeyRing:
    """The server's keys with their names, found by a digest: no time tells how near a guess is.

    Between `start` and `close` the file of keys is read again when it has changed. A file that is
    missing or wrong then leaves the keys as they are, and counts in `failures`.
    """

    def __init__(self, settings: Settings, failures: Counter) -> None:
        self._settings = settings
        self._failures = failures
        self._names = _digests(settings.api_key_names())
        self._stamp = settings.api_keys_file.stamp if settings.api_keys_file else None
        self._watch = Watch("elmo-keys", self.look)

    def __len__(self) -> int:
        return len(self._names)

    def start(self) -> None:
        """Look at the file from now on; a new key counts within two seconds."""
        if self._settings.api_keys_file:
            self._watch.start()

    def close(self) -> None:
        """End the watch."""
        self._watch.close()

    def look(self) -> None:
        """Read the file of keys again if it has changed since the last time."""
        known = self._settings.api_keys_file
        stamp = stamp_of(known.path) if known else None
        if known is None or stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            found = read_keys(known.path)
        except ValueError as error:
            self._failures.inc()
            _log.error("the former API keys stay: ELMO_API_KEYS_FILE=%s %s", known.path, error)
            return
        settings = self._settings.model_copy(update={"api_keys_file": found})
        self._names = _digests(settings.api_key_names())
        _log.info("the file of API keys was read again", extra={"keys": len(self._names)})

    def check(self, scope: Scope) -> None:
        """Answer 401 to a request without a key, if its path is not open.

        The name stands for the client in quotas and in the access log; the key itself is written
        nowhere.
        """
        if is_open(scope["method"], scope["path"]):
            return
        header = headers.first(scope, b"authorization")
        scheme, _, bearer = (header or "").partition(" ")
        sent = [headers.first(scope, b"x-api-key"), bearer if scheme.lower() == "bearer" else None]
        names = [self._names.get(_digest(key.strip())) for key in sent if key is not None]
        name = next(filter(None, names), None)
        if name is None:
            found = "none" if header is None and not names else "another"
            raise Unauthorized(
                f"Found {found}, expected an API key of the server: `Authorization: Bearer KEY`."
            )
        scope["state"]["client"] = f"key {name}"
        scope["state"]["log_fields"]["key"] = name


def _digests(keys: Mapping[str, str]) -> dict[bytes, str]:
    return {_digest(key): name for key, name in keys.items()}


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("latin-1")).digest()
