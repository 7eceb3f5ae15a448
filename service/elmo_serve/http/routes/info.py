"""GET /info: the model, and every limit in force. GET /info/centre: the means of its layers."""

from dataclasses import asdict

import orjson
from fastapi import APIRouter
from starlette.responses import Response

from elmo_model.uses.index import UsesIndex
from elmo_serve.http.media_types import ENCODERS
from elmo_serve.http.readiness import VERSION
from elmo_serve.http.routes.common import Model, TheServer
from elmo_serve.http.schemas.neighbours import IndexedText
from elmo_serve.http.schemas.server import (
    CentreResponse,
    InfoResponse,
    LimitsResponse,
    ModelStatus,
    ServedIndex,
    Training,
    UsesExample,
)

router = APIRouter(tags=["Server"])


@router.get("/info", operation_id="getInfo", summary="Describe the model")
async def get_info(server: TheServer, model: Model = None) -> InfoResponse:
    """Return a model, its devices and the limits of the server."""
    served, settings = server.models.get(model), server.settings
    states = [
        ModelStatus(model=each.name, state=found.state, reason=found.reason or "")
        for each in server.models
        for found in [each.condition]
    ]
    if served.pool.info is None:
        reasons = [f"{each.model} ({each.state}): {each.reason}" for each in states if each.reason]
        alone = served.condition.reason
        raise served.unavailable("; ".join(reasons) if len(states) > 1 else alone)
    info, slots = served.info, served.pool.slots
    return InfoResponse(
        model=served.name,
        models=states,
        revision=info.revision,
        format=info.format,
        layers=info.layers,
        dimension=info.dimension,
        parameters=info.parameters,
        precision=settings.precision_of(served.name),
        kernel=served.pool.kernels,
        tokenizer=info.tokenizer,
        language=info.language,
        devices=[slot.labels["device"] for slot in slots],
        softmax=info.softmax is not None,
        trained=None if info.trained is None else Training(**asdict(info.trained)),
        index=None if served.uses.own is None else _served(served.uses.own),
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


def _served(index: UsesIndex) -> ServedIndex:
    examples = [UsesExample.model_validate(asdict(each)) for each in index.info.examples]
    return ServedIndex(**IndexedText.of(index).model_dump(), examples=examples or None)


@router.get(
    "/info/centre",
    operation_id="getCentre",
    summary="Get the mean of each layer",
    response_class=Response,
    responses={200: {"model": CentreResponse, "description": "The centre."}},
)
async def get_centre(server: TheServer, model: Model = None) -> Response:
    """Return the mean of each layer over a text, which `text` names.

    It is the text of the index of the model, else the held-out text of a model that `elmo train`
    made, else `english`, which comes with the program.

    Vectors of one layer share a large common part. Subtract the centre from both before their
    cosine tells how alike they are.
    """
    served = server.models.get(model)
    found = served.centre
    body = {
        "model": served.name,
        "revision": served.info.revision,
        "text": found.text,
        "tokens": found.tokens,
        "layers": found.layers,
    }
    text = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(text, media_type="application/json")
