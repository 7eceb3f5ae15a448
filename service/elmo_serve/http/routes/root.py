"""GET /: the addresses of the other routes."""

from fastapi import APIRouter

from elmo_serve.http.schemas.server import RootResponse
from elmo_serve.http.state import VERSION

router = APIRouter()


@router.head("/", include_in_schema=False)
@router.get("/", summary="List the addresses")
async def root() -> RootResponse:
    """Return the addresses to begin with. They are relative: a proxy may serve them below a path.

    The route needs no key, so it names no model.
    """
    return RootResponse(
        name="elmo-serve",
        version=VERSION,
        docs="docs",
        openapi="openapi.json",
        info="info",
        health="health/ready",
        metrics="metrics",
    )
