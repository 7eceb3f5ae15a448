"""Request headers, read from the ASGI scope."""

import math
import os
import re
from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import mimeparse

from elmo_model.errors import shown
from elmo_serve.errors import InvalidRequest, NotAcceptable, UnsupportedMediaType

if TYPE_CHECKING:  # helpers import this module and have no use for a web framework
    from starlette.types import Scope

MAX_ACCEPT_CHARACTERS: Final = 4_096
"""Of all Accept headers together: 63 KB of them take the event loop 20 ms to match."""

_VARY: Final = {"Vary": "Accept"}
_JSON: Final = "application/json"
_CURL: Final = "application/x-www-form-urlencoded"  # of curl -d without -H
_SANE: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
# Matches at every quote, at the end of the text as well: a pattern that needs the closing quote
# would read to the end again for each quote of a header that has none.
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.?)*(?:"|\Z)', re.DOTALL)
_NUMBER: Final = re.compile(r"[0-9]+([.][0-9]*)?([eE][+-]?[0-9]+)?|[.][0-9]+([eE][+-]?[0-9]+)?")


def to_origin_form(scope: "Scope") -> None:
    """Split a target in absolute form, `http://host/path`: the host counts in place of `Host`.

    RFC 9112, 3.2.2. Must come before any other function here.
    """
    scheme, separator, rest = scope["path"].partition("://")
    if separator and scheme.lower() in ("http", "https"):
        authority, slash, path = rest.partition("/")
        scope["path"] = slash + path or "/"
        others = [(name, value) for name, value in scope["headers"] if name != b"host"]
        scope["headers"] = [(b"host", authority.encode()), *others]


def first(scope: "Scope", name: bytes) -> str | None:
    """Return the value of the first header called `name` (lower case); None when there is none.

    White space around a value is no part of it (RFC 9110, 5.5).
    """
    for sent, value in scope["headers"]:
        if sent == name:
            return _text(value)
    return None


def every(scope: "Scope", name: bytes) -> tuple[str, ...]:
    """Return the values of all headers called `name` (lower case), in their order."""
    return tuple(_text(value) for sent, value in scope["headers"] if sent == name)


def _text(value: bytes) -> str:
    return str(value, "latin-1").strip(" \t")


def accept(scope: "Scope") -> str:
    """Return the Accept headers, joined by commas: several headers are one list (RFC 9110, 5.2).

    Raises:
        NotAcceptable: together they are longer than `MAX_ACCEPT_CHARACTERS`.
    """
    values = every(scope, b"accept")
    if sum(map(len, values)) > MAX_ACCEPT_CHARACTERS:
        raise NotAcceptable(
            f"Accept has more than {MAX_ACCEPT_CHARACTERS} characters.", headers=_VARY
        )
    return ",".join(values)


@lru_cache(maxsize=64)  # clients send few different headers
def preferred(accept: str, offered: tuple[str, ...]) -> str:
    """Return the media type of `offered` that Accept headers, joined by commas, prefer.

    It is the first one of equals and where no preference is stated, and "" where none is accepted
    or the headers are faulty.
    """
    # Empty members of a list do not count (RFC 9110, 5.6.1). Media types have no case (8.3.1).
    wanted = ",".join(filter(None, (part.strip() for part in accept.lower().split(","))))
    if wanted in ("", "*/*"):
        return offered[0]
    try:
        # mimeparse splits also at a comma in quotes, and returns the last of equals.
        return str(mimeparse.best_match(list(reversed(offered)), _QUOTED.sub('""', wanted)))
    except mimeparse.MimeTypeParseException:
        return ""


def accepted(scope: "Scope", offered: tuple[str, ...]) -> str:
    """Return the media type of `offered` that a request prefers; see `preferred`.

    Raises:
        NotAcceptable: it accepts none of them.
    """
    wanted = accept(scope)
    best = preferred(wanted, offered)
    if not best:
        detail = f"Nothing acceptable to {shown(wanted)}; there is {', '.join(offered)}."
        raise NotAcceptable(detail, headers=_VARY)
    return best


def content_length(scope: "Scope") -> int | None:
    """Return the announced length of the body in bytes; None for a chunked body or none at all."""
    announced = first(scope, b"content-length") or ""
    return int(announced) if announced.isdecimal() else None  # h11 refuses more than 20 digits


def timeout_seconds(scope: "Scope", most: float) -> float:
    """Return `X-Request-Timeout` in seconds, at most `most`; `most` when it was not sent.

    Raises:
        InvalidRequest: it is not a number above 0.
    """
    sent = first(scope, b"x-request-timeout")
    if sent is None:
        return most
    seconds = float(sent) if _NUMBER.fullmatch(sent) else math.nan
    if not 0 < seconds < math.inf:
        raise InvalidRequest(
            f"X-Request-Timeout is {shown(sent)}; it is a finite number of seconds above 0."
        )
    return min(seconds, most)


def check_media_type(scope: "Scope") -> None:
    """Raise UnsupportedMediaType unless the headers announce JSON that is not compressed.

    A missing Content-Type is refused as well: a browser lets a page of another origin send every
    type but JSON, or none, without asking the server before.
    """
    sent = first(scope, b"content-type")
    found = (sent or "").partition(";")[0].strip().lower()
    if found != _JSON:
        hint = f" (curl -H 'Content-Type: {_JSON}')" if found in ("", _CURL) else ""
        raise UnsupportedMediaType(
            f"Content-Type is {shown(sent) if sent else 'missing'}; a request is {_JSON}{hint}."
        )
    coding = first(scope, b"content-encoding")
    if coding is not None and coding.strip().lower() != "identity":
        raise UnsupportedMediaType(
            f"Content-Encoding is {shown(coding)}; a request body is not compressed.",
            headers={"Accept-Encoding": "identity"},
        )


def refuse_fields_in_query(scope: "Scope", fields: Collection[str]) -> None:
    """Raise InvalidRequest for a field of the body that is in the query: it would be ignored."""
    if scope["query_string"]:
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if (name := next((name for name, _ in query if name in fields), None)) is not None:
            raise InvalidRequest(f"{name} is in the query; it is a field of the body.")


def client(scope: "Scope") -> str:
    """Return the client of a request: the name of its API key, or its address."""
    known: str | None = scope["state"].get("client")
    address = scope["client"]
    return known or (address[0] if address else "")


def request_id(scope: "Scope") -> str:
    """Return the client's X-Request-Id if it is 1 to 128 harmless characters, else a new one."""
    for sent in every(scope, b"x-request-id"):
        if _SANE.fullmatch(sent):
            return sent
    return os.urandom(16).hex()
