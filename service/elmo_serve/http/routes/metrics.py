"""GET /metrics: for Prometheus."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from starlette.responses import Response

from elmo_serve.http import headers
from elmo_serve.http.routes.common import TheServer

router = APIRouter(tags=["Server"])

_TEXT, _OPENMETRICS = "text/plain", "application/openmetrics-text"


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
    accept = ",".join(request.headers.getlist("accept"))
    is_openmetrics = (
        len(accept) <= headers.MAX_ACCEPT_CHARACTERS
        and headers.preferred(accept, (_TEXT, _OPENMETRICS)) == _OPENMETRICS
    )
    write, media_type = (
        (openmetrics.generate_latest, f"{_OPENMETRICS}; version=1.0.0; charset=utf-8")
        if is_openmetrics
        else (generate_latest, CONTENT_TYPE_PLAIN_0_0_4)
    )
    # Milliseconds of work: not on the event loop.
    text = await asyncio.to_thread(write, server.metrics.snapshot())
    return Response(text, headers={"content-type": media_type, "vary": "Accept"})
