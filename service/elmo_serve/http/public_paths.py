"""The paths that are open without an API key, and those that monitoring asks for all the time."""

from typing import Final

PROBES: Final = frozenset(
    {
        *("/health/live", "/health/ready", "/health", "/ping", "/metrics"),
        *("/v2/health/live", "/v2/health/ready"),
    }
)
"""Asked for by monitoring: answered without a key and on connections over the limit, and logged at
debug level, so that they do not fill the log."""

OPEN: Final = PROBES | {"/", "/v2", "/docs", "/openapi.json"}
"""GET of these is answered without an API key: none holds data of the model or of a client."""

_OPEN_FOLDERS: Final = ("/docs/", "/page/")
"""Likewise for the files of the pages `/docs` and `/`: scripts, styles and icons."""


def is_open(method: str, path: str) -> bool:
    """Tell whether a request needs no API key."""
    return method in ("GET", "HEAD") and (path in OPEN or path.startswith(_OPEN_FOLDERS))
