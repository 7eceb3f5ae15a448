"""GET /: the page for browsers, the addresses of the other routes for everybody else."""

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import ASGIApp

from elmo_serve.http import headers
from elmo_serve.http.routes import page
from elmo_serve.http.schemas.server import RootResponse
from elmo_serve.http.state import VERSION, PlainRoute

router = APIRouter(route_class=PlainRoute, tags=["Server"])

_JSON: Final = "application/json"
_HTML: Final = "text/html"


@router.get(
    "/",
    operation_id="getRoot",
    summary="Show the page, or list the addresses",
    response_model=RootResponse,
    responses={200: {"content": {_HTML: {"schema": {"type": "string"}}}}},
)
async def root(request: Request) -> ASGIApp:
    """Return the page for a client that prefers HTML, else the addresses to begin with.

    The addresses are relative: a proxy may serve them below a path. The route needs no key, so it
    names no model.
    """
    accept = ",".join(headers.every(request.scope, b"accept"))
    # Where HTML is named and preferred: `*/*` alone, as curl sends it, means JSON.
    if _HTML in accept.lower() and headers.preferred(accept, (_HTML, _JSON)) == _HTML:
        return await page.response(page.INDEX, request.scope, vary="Accept")
    body = RootResponse(
        name="elmo-serve",
        version=VERSION,
        docs="docs",
        openapi="openapi.json",
        info="info",
        health="health/ready",
        metrics="metrics",
    )
    return Response(
        body.model_dump_json(),
        media_type=_JSON,
        headers={"Vary": "Accept, Accept-Encoding"},
    )
