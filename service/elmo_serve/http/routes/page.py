"""The pages: GET / with its files in /page/NAME, and GET /docs, Swagger UI, with its files.

Neither page loads anything from other hosts.
"""

import base64
import hashlib
import importlib.resources
from pathlib import Path
from typing import Final

import orjson
from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from elmo_serve.http import headers
from elmo_serve.http.readiness import VERSION
from elmo_serve.http.routes.common import PlainRoute

router = APIRouter(route_class=PlainRoute, tags=["Server"])

INDEX: Final = "index.html"
FOLDER: Final = Path(__file__).parents[1] / "page" / "static"

_DOCS: Final = Path(str(importlib.resources.files("fastapi_offline"))) / "static"

_JSON: Final = "application/json"
_HTML: Final = "text/html"

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""The page runs its own files, asks its own server, and makes no markup from strings."""

_DOCS_POLICY: Final = (
    "default-src 'none'; script-src 'self' 'sha256-{}'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Swagger UI has one script in its page, which is named by its hash, and styles in its elements."""

_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # A browser asks each time and is answered 304, so that an upgraded server has no mixed page.
    "Cache-Control": "no-cache",
}


_FILES: Final = StaticFiles(directory=FOLDER, check_dir=False)
_DOCS_FILES: Final = StaticFiles(directory=_DOCS, check_dir=False)


@router.get(
    "/",
    operation_id="getRoot",
    summary="Show the page, or list the addresses",
    response_model=dict[str, str],
    responses={200: {"content": {_HTML: {"schema": {"type": "string"}}}}},
)
async def root(request: Request) -> ASGIApp:
    """Return the page for a client that prefers HTML, else the addresses to begin with.

    The addresses are relative: a proxy may serve them below a path. The route needs no key, so it
    names no model.
    """
    accept = headers.accept(request.scope)
    # Where HTML is named and preferred: `*/*` alone, as curl sends it, means JSON.
    if _HTML in accept.lower() and headers.preferred(accept, (_HTML, _JSON)) == _HTML:
        response = await _file(INDEX, request.scope)
        response.headers["Vary"] = "Accept"
        return GZipMiddleware(response)
    body = {
        "name": "elmo-serve",
        "version": VERSION,
        "docs": "docs",
        "openapi": "openapi.json",
        "info": "info",
        "health": "health/ready",
        "metrics": "metrics",
    }
    return Response(orjson.dumps(body), media_type=_JSON, headers={"Vary": "Accept"})


@router.get("/page/{name}", response_model=None, include_in_schema=False)
async def part(request: Request) -> ASGIApp:
    """Return a script, a style or the icon of the page at `/`; 304 where it is known."""
    return GZipMiddleware(await _file(request.path_params["name"], request.scope))


@router.get("/docs", response_model=None, include_in_schema=False)
async def docs(request: Request) -> Response:
    """Return Swagger UI. Its links are relative, so that a proxy may serve it below a path."""
    response = get_swagger_ui_html(
        openapi_url="./openapi.json",
        title="elmo-serve",
        swagger_js_url="./docs/swagger-ui-bundle.js",
        swagger_css_url="./docs/swagger-ui.css",
        swagger_favicon_url="./docs/favicon.png",
        swagger_ui_parameters={"validatorUrl": None},
    )
    script = bytes(response.body).partition(b"<script>")[2].partition(b"</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    response.headers["Content-Security-Policy"] = _DOCS_POLICY.format(digest)
    return response


@router.get("/docs/{name}", response_model=None, include_in_schema=False)
async def docs_part(request: Request) -> Response:
    """Return the script, the style or the icon of Swagger UI."""
    return await _DOCS_FILES.get_response(request.path_params["name"], request.scope)


async def _file(name: str, scope: Scope) -> Response:
    response = await _FILES.get_response(name, scope)
    response.headers.update(_HEADERS)
    # Weak, because the bytes of both codings have the same one.
    response.headers["ETag"] = "W/" + response.headers["ETag"]
    return response
