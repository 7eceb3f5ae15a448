"""The paths that are open without an API key, and those that monitoring asks for all the time."""

from typing import Final

PROBES: Final = frozenset({"/health/live", "/health/ready", "/health", "/ping", "/metrics"})
"""Asked for by monitoring: answered without a key and on connections over the limit, and logged at
debug level, so that they do not fill the log."""

DOCS: Final = ("swagger-ui-bundle.js", "swagger-ui.css", "favicon.png")
"""Files of the page `/docs`: script, style and icon."""

OPEN: Final = PROBES | {"/", "/docs", "/openapi.json", *(f"/docs/{name}" for name in DOCS)}
"""Answered without an API key: none of them holds data of the model or of a client."""
