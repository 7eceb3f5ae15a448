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

DOCS: Final = ("swagger-ui-bundle.js", "swagger-ui.css", "favicon.png")
"""Files of the page `/docs`: script, style and icon."""

PAGE: Final = (
    "base.css",
    "bodies.js",
    "card.js",
    "dom.js",
    "examples.js",
    "icon.svg",
    "key_dialog.js",
    "labels.js",
    "layers_table.js",
    "layout.css",
    "lines.js",
    "main.js",
    "map.js",
    "messages.js",
    "nearest_uses.js",
    "numbers.js",
    "parts.css",
    "pca.js",
    "places.js",
    "reading.js",
    "refusal.js",
    "safetensors.js",
    "selection.js",
    "sentence_form.js",
    "server.js",
    "shapes.js",
    "tokens.js",
    "vectors.js",
)
"""Files of the page `/`, beyond its document: scripts, styles and icon."""

OPEN: Final = PROBES | {
    *("/", "/v2", "/docs", "/openapi.json"),
    *(f"/docs/{name}" for name in DOCS),
    *(f"/page/{name}" for name in PAGE),
}
"""GET of these is answered without an API key: none holds data of the model or of a client."""


def is_open(method: str, path: str) -> bool:
    """Tell whether a request needs no API key."""
    return path in OPEN and method in ("GET", "HEAD")
