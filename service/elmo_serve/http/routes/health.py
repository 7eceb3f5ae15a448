"""Probes: liveness and readiness."""

from fastapi import APIRouter

from elmo_serve.errors import Unavailable
from elmo_serve.http.problem_details import documented
from elmo_serve.http.schemas import Health
from elmo_serve.http.state import TheServer

router = APIRouter()


@router.head("/health/live", include_in_schema=False)
@router.get("/health/live", summary="Liveness", responses=documented((Unavailable,)))
async def live(server: TheServer) -> Health:
    """200 while the process can recover by itself."""
    if not server.engine.pool.is_fit:
        raise Unavailable(f"No worker can start: {server.engine.pool.reason}.", retry_after=10)
    return Health(status="live")


@router.head("/health/ready", include_in_schema=False)
@router.get("/health/ready", summary="Readiness", responses=documented((Unavailable,)))
async def ready(server: TheServer) -> Health:
    """200 when every start-up check has passed and a worker can answer."""
    if (reason := server.not_ready_because()) is not None:
        raise Unavailable(f"Not ready: {reason}.", retry_after=1)
    return Health(status="ready")
