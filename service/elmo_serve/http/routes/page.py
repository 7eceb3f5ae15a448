"""GET /page/NAME: the scripts, the styles and the icon of the page."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from elmo_serve.errors import UnknownRoute, shown
from elmo_serve.http.page import files
from elmo_serve.http.public_paths import PAGE

router = APIRouter(include_in_schema=False)


@router.head("/page/{name}")
@router.get("/page/{name}")
async def part(name: str, request: Request) -> Response:
    """Return a file of the page."""
    if name not in PAGE:
        raise UnknownRoute(f"No route {shown(f'/page/{name}')}; /docs lists them.")
    return files.response(name, request.scope)
