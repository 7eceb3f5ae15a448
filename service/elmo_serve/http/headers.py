"""The headers of a request, looked up where ASGI has them."""

from __future__ import annotations

import math
import os
import re
from typing import Final

from starlette.types import Scope

from elmo_serve.errors import InvalidRequest, UnsupportedMediaType, shown

_JSON: Final = "application/json"
_SANE: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_NUMBER: Final = re.compile(r"[0-9]+([.][0-9]*)?([eE][+-]?[0-9]+)?|[.][0-9]+([eE][+-]?[0-9]+)?")


def first(scope: Scope, name: bytes) -> str | None:
    """Return the first header of a name, in lower case; None when it was not sent."""
    for sent, value in scope["headers"]:
        if sent == name:
            return str(value, "latin-1")
    return None


def every(scope: Scope, name: bytes) -> tuple[str, ...]:
    """Return all headers of a name, in lower case, in their order."""
    return tuple(str(value, "latin-1") for sent, value in scope["headers"] if sent == name)


def timeout_seconds(scope: Scope, most: float) -> float:
    """Return the seconds that the client allows, capped by the server's own limit.

    Raises InvalidRequest when X-Request-Timeout is no such number.
    """
    sent = first(scope, b"x-request-timeout")
    if sent is None:
        return most
    seconds = float(sent) if _NUMBER.fullmatch(sent) else math.nan
    if not 0 < seconds < math.inf:
        raise InvalidRequest(
            f"X-Request-Timeout is {shown(sent)}; it is a number of seconds above 0."
        )
    return min(seconds, most)


def check_json(scope: Scope) -> None:
    """Raise UnsupportedMediaType for a body that says it is something else, or compressed."""
    sent = first(scope, b"content-type")
    if sent is not None and sent.partition(";")[0].strip().lower() != _JSON:
        raise UnsupportedMediaType(f"Content-Type is {shown(sent)}; a request is {_JSON}.")
    coding = first(scope, b"content-encoding")
    if coding is not None and coding.strip().lower() != "identity":
        raise UnsupportedMediaType(
            f"Content-Encoding is {shown(coding)}; a request body is not compressed.",
            headers={"Accept-Encoding": "identity"},
        )


def request_id(scope: Scope) -> str:
    """Return the client's id for a request, when it is sane, or a new one."""
    for sent in every(scope, b"x-request-id"):
        if _SANE.fullmatch(sent):
            return sent
    return os.urandom(16).hex()
