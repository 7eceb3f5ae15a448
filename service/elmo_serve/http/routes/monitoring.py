"""What monitoring asks for: liveness, readiness, also under the path of other servers, metrics."""

import asyncio

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from starlette.responses import Response

from elmo_serve.errors import Unavailable
from elmo_serve.http import headers
from elmo_serve.http.routes.common import TheServer
from elmo_serve.http.schemas.server import Health, ModelStatus

router = APIRouter(tags=["Server"])

_TEXT, _OPENMETRICS = "text/plain", "application/openmetrics-text"


@router.get(
    "/health/live",
    operation_id="getLive",
    summary="Liveness",
    response_model_exclude_unset=True,
)
async def live(server: TheServer) -> Health:
    """200 while the process can recover by itself."""
    if not any(model.can_recover for model in server.models):
        raise Unavailable("No worker can start; the log has the reason.", retry_after=10)
    return Health(status="live")


@router.get(
    "/health",
    operation_id="getHealth",
    summary="Readiness, as OpenAI servers",
    response_model_exclude_unset=True,
)
@router.get(
    "/health/ready",
    operation_id="getReady",
    summary="Readiness",
    response_model_exclude_unset=True,
)
async def ready(server: TheServer) -> Health:
    """200 once every model is loaded or has failed, while one of them can answer.

    `models` lists those that cannot. Load balancers and clients of other servers ask for `/health`.
    """
    if (reason := server.readiness.public_reason) is not None:
        raise Unavailable(f"Not ready: {reason}.", retry_after=1)
    lacking = [
        ModelStatus(model=model.name, state=found.state, reason=found.public)
        for model in server.models
        if (found := model.condition).public is not None
    ]
    return Health(status="ready", models=lacking) if lacking else Health(status="ready")


@router.get(
    "/metrics",
    operation_id="getMetrics",
    summary="Metrics",
    response_class=Response,
    responses={
        200: {
            "description": "Prometheus text, or OpenMetrics when it is asked for.",
            "content": {
                media_type: {"schema": {"type": "string"}} for media_type in (_TEXT, _OPENMETRICS)
            },
        }
    },
)
async def metrics(request: Request, server: TheServer) -> Response:
    """Return every metric of this server."""
    best = headers.preferred(headers.accept(request.scope), (_TEXT, _OPENMETRICS))
    write, media_type = (
        (openmetrics.generate_latest, f"{_OPENMETRICS}; version=1.0.0; charset=utf-8")
        if best == _OPENMETRICS
        else (generate_latest, CONTENT_TYPE_PLAIN_0_0_4)
    )
    # Milliseconds of work: not on the event loop.
    text = await asyncio.to_thread(write, server.metrics.registry)
    return Response(text, headers={"content-type": media_type, "vary": "Accept"})
