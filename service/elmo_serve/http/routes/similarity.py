"""POST /similarity: the cosines of pairs of sentences or tokens, in every layer."""

from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from numpy.typing import NDArray
from starlette.responses import Response

from elmo_model.inference.centre import cosines
from elmo_serve.http.calls.call import VECTORS_FACTOR, EmbeddingCall
from elmo_serve.http.calls.tokenize import check_each_has_tokens, check_token
from elmo_serve.http.error_responses import EMBED_ERRORS, documented
from elmo_serve.http.routes.common import PlainRoute, json_request
from elmo_serve.http.schemas.clients import SimilarityRequest, SimilarityResponse
from elmo_serve.output import select
from elmo_serve.scheduling.engine import Embedded

router = APIRouter(route_class=PlainRoute, default_response_class=Response, tags=["Vectors"])


@router.post(
    "/similarity",
    operation_id="compare",
    summary="Compare sentences or tokens",
    responses={
        200: {"model": SimilarityResponse, "description": "The cosines."},
        **documented(EMBED_ERRORS),
    },
    openapi_extra=json_request(SimilarityRequest),
)
async def similarity(request: Request) -> Response:
    """Return the cosine of each pair in every layer, and between the means of the layers."""
    async with EmbeddingCall(request) as call:
        body = await call.body(SimilarityRequest)
        asked = body.request
        model = call.server.models.get(asked.model)
        layers = model.info.layers
        texts = await call.tokenize(model, body, asked.tokenizer)
        check_each_has_tokens(body, texts)
        for index, (token, length) in enumerate(zip(body.tokens, texts.lengths, strict=True)):
            check_token(token, length, f"{body.pointer(index)}/token")
        is_whole = all(token is None for token in body.tokens)
        output = select("all", layers, pooling="mean" if is_whole else "none")
        embedded = await call.embed(model, body, texts, output, VECTORS_FACTOR)
        centre = model.centre.layers if asked.centred else None
        found = await call.in_thread(
            _cosines, embedded, body.tokens, centre, (layers, model.info.dimension)
        )
        members: dict[str, Any] = {
            "model": model.name,
            "cosine": found,
            "usage": {"sentences": len(texts.lengths), "tokens": sum(texts.lengths)},
        }
        return call.json_response(members, body, texts)


def _cosines(
    embedded: Embedded,
    places: tuple[int | None, ...],
    centre: NDArray[np.float32] | None,
    shape: tuple[int, int],
) -> dict[str, list[float]]:
    """Map the layers of both sides of each pair to its cosine in each layer and in their mean.

    `shape` is that of a place: (L + 1, 2P).
    """
    vectors = [
        _place(each.numpy(), place) for each, place in zip(embedded.vectors, places, strict=True)
    ]
    return cosines(np.asarray(vectors, np.float64).reshape(len(vectors), *shape), centre)


def _place(layers: NDArray[Any], place: int | None) -> NDArray[Any]:
    """Map layers (L + 1, n, 2P) or pooled ones (L + 1, 2P) to those of a token or of all."""
    if layers.ndim == 2:
        return layers
    return layers[:, place] if place is not None else layers.mean(axis=1)
