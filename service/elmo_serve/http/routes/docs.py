"""GET /docs: Swagger UI for the OpenAPI document; loads nothing from other hosts."""

import importlib.resources
from pathlib import Path

from fastapi import APIRouter
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import FileResponse, HTMLResponse

from elmo_serve.errors import UnknownRoute, shown
from elmo_serve.http.public_paths import DOCS

router = APIRouter(include_in_schema=False)

_SCRIPT, _STYLE, _ICON = DOCS
_FOLDER = Path(str(importlib.resources.files("fastapi_offline"))) / "static"


@router.head("/docs")
@router.get("/docs")
async def page() -> HTMLResponse:
    """Return the page. Its links are relative, so that a proxy may serve it below a path."""
    return get_swagger_ui_html(
        openapi_url="./openapi.json",
        title="elmo-serve",
        swagger_js_url=f"./docs/{_SCRIPT}",
        swagger_css_url=f"./docs/{_STYLE}",
        swagger_favicon_url=f"./docs/{_ICON}",
        swagger_ui_parameters={"validatorUrl": None},
    )


@router.head("/docs/{name}")
@router.get("/docs/{name}")
async def part(name: str) -> FileResponse:
    """Return the script, the style or the icon of the page."""
    if name not in DOCS:
        raise UnknownRoute(f"No route {shown(f'/docs/{name}')}; /docs lists them.")
    return FileResponse(_FOLDER / name)
