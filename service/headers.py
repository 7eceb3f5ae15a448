"""The headers of a request, looked up where ASGI has them."""

from __future__ import annotations

from starlette.types import Scope


def first(scope: Scope, name: bytes) -> str | None:
    """Return the first header of a name, in lower case; None when it was not sent."""
    for sent, value in scope["headers"]:
        if sent == name:
            return str(value, "latin-1")
    return None


def every(scope: Scope, name: bytes) -> tuple[str, ...]:
    """Return all headers of a name, in lower case, in their order."""
    return tuple(str(value, "latin-1") for sent, value in scope["headers"] if sent == name)
