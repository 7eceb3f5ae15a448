"""GET /metrics: for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from service.dependencies import TheServer

router = APIRouter()


@router.head("/metrics", include_in_schema=False)
@router.get(
    "/metrics",
    summary="Metrics",
    response_class=Response,
    responses={
        200: {
            "description": "Prometheus text, or OpenMetrics when it is asked for.",
            "content": {
                "text/plain": {"schema": {"type": "string"}},
                "application/openmetrics-text": {"schema": {"type": "string"}},
            },
        }
    },
)
async def metrics(request: Request, server: TheServer) -> Response:
    """Return every metric of this server."""
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(server.metrics.registry), headers={"content-type": content_type})
