"""GET /info: the model, and every limit in force."""

from __future__ import annotations

import importlib.metadata

from fastapi import APIRouter

from service.dependencies import TheServer
from service.encodings import ENCODINGS
from service.errors import Unauthorized, Unavailable
from service.problems import documented
from service.schemas import InfoAnswer, LimitsAnswer

router = APIRouter()

VERSION = importlib.metadata.version("elmo-serve")


@router.head("/info", include_in_schema=False)
@router.get(
    "/info", summary="Describe the model", responses=documented((Unauthorized, Unavailable))
)
async def info(server: TheServer) -> InfoAnswer:
    """Return what is served, where it runs and what it allows."""
    model, settings = server.info, server.settings
    seats = server.engine.pool.seats
    return InfoAnswer(
        model=model.name,
        revision=model.revision,
        format=model.format,
        layers=model.layers,
        dimension=model.dimension,
        parameters=model.parameters,
        precision=model.precision,
        devices=[seat.device for seat in seats],
        limits=LimitsAnswer(
            max_batch_tokens=max(seat.budget for seat in seats),
            **{
                name: getattr(settings, name)
                for name in LimitsAnswer.model_fields
                if name != "max_batch_tokens"
            },
        ),
        media_types=list(ENCODINGS),
        version=VERSION,
    )
