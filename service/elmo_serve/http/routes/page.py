"""GET /page/NAME: the scripts, the styles and the icon of the page at `/`, and the page itself."""

import os
import re
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from elmo_serve.http import headers
from elmo_serve.http.state import PlainRoute

router = APIRouter(route_class=PlainRoute, include_in_schema=False)

INDEX: Final = "index.html"
FOLDER: Final = Path(__file__).parents[1] / "page" / "static"

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

_GZIP: Final = re.compile(r"gzip(?![ \t]*;[ \t]*q=0(\.0*)?[ \t]*(,|$))", re.IGNORECASE)
"""In Accept-Encoding: `q=0` refuses a coding, which starlette does not look at."""


class _PageFiles(StaticFiles):
    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(_HEADERS)
        # Weak, because the bytes of both codings have the same one.
        response.headers["ETag"] = "W/" + response.headers["ETag"]
        return response


_FILES: Final = _PageFiles(directory=FOLDER, check_dir=False)


@router.get("/page/{name}", response_model=None)
async def part(request: Request) -> ASGIApp:
    """Return a file of the page."""
    return await response(request.path_params["name"], request.scope)


async def response(name: str, scope: Scope, vary: str = "") -> ASGIApp:
    """Return the response with a file: compressed for a client that takes gzip, 304 where it is
    known. `vary` names a header that the response depends on, beside Accept-Encoding.

    Raises HTTPException when the file does not exist.
    """
    found = await _FILES.get_response(name, {**scope, "method": "GET"})
    if vary:
        found.headers["Vary"] = vary
    accepted = ",".join(headers.every(scope, b"accept-encoding"))
    coding = [(b"accept-encoding", b"gzip")] if _GZIP.search(accepted) else []
    app = GZipMiddleware(found)

    async def as_get(scope: Scope, receive: Receive, send: Send) -> None:
        # HEAD has the headers of GET; the server sends no body with it.
        await app({**scope, "method": "GET", "headers": coding}, receive, send)

    return as_get
