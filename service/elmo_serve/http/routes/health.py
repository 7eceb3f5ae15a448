"""Probes: liveness and readiness, the latter also under the paths that other servers have."""

from fastapi import APIRouter

from elmo_serve.errors import Unavailable
from elmo_serve.http.problem_details import documented
from elmo_serve.http.schemas import Health
from elmo_serve.http.state import Server, TheServer

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
    return _ready(server)


@router.head("/health", include_in_schema=False)
@router.get("/health", summary="Readiness, as OpenAI servers", responses=documented((Unavailable,)))
async def health(server: TheServer) -> Health:
    """As `/health/ready`: load balancers and clients of other servers ask for this path."""
    return _ready(server)


@router.head("/ping", include_in_schema=False)
@router.get("/ping", summary="Readiness, as SageMaker", responses=documented((Unavailable,)))
async def ping(server: TheServer) -> Health:
    """As `/health/ready`: hosts of model containers ask for this path."""
    return _ready(server)


def _ready(server: Server) -> Health:
    if (reason := server.not_ready_because()) is not None:
        raise Unavailable(f"Not ready: {reason}.", retry_after=1)
    return Health(status="ready")
