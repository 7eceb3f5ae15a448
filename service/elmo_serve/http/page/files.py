"""The files of the page, and the response that sends one of them."""

import gzip
import hashlib
import importlib.resources
import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from starlette.responses import Response
from starlette.types import Scope

from elmo_serve.http.request import headers

INDEX: Final = "index.html"

_TYPES: Final = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""The page runs its own files, asks its own server, and makes no markup from strings."""

_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # A browser asks each time and is answered 304, so that an upgraded server has no mixed page.
    "Cache-Control": "no-cache",
}

_REFUSES: Final = re.compile(r"q=0(\.0*)?")


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    zipped: bytes
    media_type: str
    etag: str


def response(name: str, scope: Scope, vary: str = "Accept-Encoding") -> Response:
    """Return a file: compressed where the client takes gzip, 304 where the client has it.

    Raises KeyError when the file does not exist, which a route excludes before.
    """
    file = _file(name)
    sent = {**_HEADERS, "ETag": file.etag, "Vary": vary}
    known = ",".join(headers.every(scope, b"if-none-match"))
    if file.etag.removeprefix("W/") in known:
        return Response(status_code=304, headers=sent)
    content = file.content
    if _accepts_gzip(scope):
        content, sent["Content-Encoding"] = file.zipped, "gzip"
    return Response(content, media_type=file.media_type, headers=sent)


@cache
def _file(name: str) -> _File:
    content = (importlib.resources.files(__package__) / "static" / name).read_bytes()
    # Weak, because the bytes of both codings have the same one.
    etag = f'W/"{hashlib.sha256(content).hexdigest()[:16]}"'
    return _File(content, gzip.compress(content, mtime=0), _TYPES[name.rpartition(".")[2]], etag)


def _accepts_gzip(scope: Scope) -> bool:
    codings = ",".join(headers.every(scope, b"accept-encoding")).lower().replace(" ", "").split(",")
    for coding in codings:
        name, _, quality = coding.partition(";")
        if name == "gzip":
            return not _REFUSES.fullmatch(quality)
    return False
