"""GET /page/NAME: the scripts, the styles and the icon of the page."""

from fastapi import APIRouter, Request
from starlette.types import ASGIApp

from elmo_serve.http.page import files
from elmo_serve.http.state import PlainRoute

router = APIRouter(route_class=PlainRoute, include_in_schema=False)


@router.head("/page/{name}", response_model=None)
@router.get("/page/{name}", response_model=None)
async def part(request: Request) -> ASGIApp:
    """Return a file of the page."""
    return await files.response(request.path_params["name"], request.scope)
