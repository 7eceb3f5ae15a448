"""GET /docs: Swagger UI for the OpenAPI document; loads nothing from other hosts."""

import importlib.resources
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

router = APIRouter(include_in_schema=False)

_FOLDER = Path(str(importlib.resources.files("fastapi_offline"))) / "static"
_FILES = StaticFiles(directory=_FOLDER, check_dir=False)


@router.get("/docs")
async def page() -> HTMLResponse:
    """Return the page. Its links are relative, so that a proxy may serve it below a path."""
    return get_swagger_ui_html(
        openapi_url="./openapi.json",
        title="elmo-serve",
        swagger_js_url="./docs/swagger-ui-bundle.js",
        swagger_css_url="./docs/swagger-ui.css",
        swagger_favicon_url="./docs/favicon.png",
        swagger_ui_parameters={"validatorUrl": None},
    )


@router.get("/docs/{name}")
async def part(name: str, request: Request) -> Response:
    """Return the script, the style or the icon of the page."""
    return await _FILES.get_response(name, request.scope)
