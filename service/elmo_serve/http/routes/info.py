"""GET /info: the model, and every limit in force."""

from fastapi import APIRouter

from elmo_serve.errors import Unauthorized, Unavailable
from elmo_serve.http.media_types import ENCODERS
from elmo_serve.http.problem_details import documented
from elmo_serve.http.schemas import InfoResponse, LimitsResponse
from elmo_serve.http.state import VERSION, TheServer

router = APIRouter()


@router.head("/info", include_in_schema=False)
@router.get(
    "/info", summary="Describe the model", responses=documented((Unauthorized, Unavailable))
)
async def info(server: TheServer) -> InfoResponse:
    """Return the model, its devices and the limits of the server."""
    model, settings = server.info, server.settings
    slots = server.engine.pool.slots
    return InfoResponse(
        model=model.name,
        revision=model.revision,
        format=model.format,
        layers=model.layers,
        dimension=model.dimension,
        parameters=model.parameters,
        precision=model.precision,
        devices=[slot.device for slot in slots],
        limits=LimitsResponse(
            max_batch_tokens=max(slot.budget for slot in slots),
            **{
                name: getattr(settings, name)
                for name in LimitsResponse.model_fields
                if name != "max_batch_tokens"
            },
        ),
        media_types=list(ENCODERS),
        version=VERSION,
    )
