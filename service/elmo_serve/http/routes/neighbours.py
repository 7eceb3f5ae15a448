"""POST /neighbours: uses near a token."""

from dataclasses import asdict
from typing import Any, Final

import numpy as np
import orjson
from fastapi import APIRouter, Request
from numpy.typing import NDArray
from starlette.responses import Response

from elmo_model.uses.index import UsesIndex
from elmo_serve.errors import FieldError, InvalidRequest
from elmo_serve.http.call import EmbeddingCall
from elmo_serve.http.models import ServedModel
from elmo_serve.http.routes.common import PlainRoute, check_token, json_request
from elmo_serve.http.schemas.neighbours import (
    DEFAULT_COUNT,
    IndexedText,
    NeighboursRequest,
    NeighboursResponse,
)
from elmo_serve.http.texts import check_each_has_tokens
from elmo_serve.selection import select

router = APIRouter(route_class=PlainRoute, default_response_class=Response, tags=["Vectors"])

_VECTORS_FACTOR: Final = 1
"""Memory of a small response that is computed from the vectors, against these."""


@router.post(
    "/neighbours",
    operation_id="findNeighbours",
    summary="Find the nearest uses of a token",
    responses={200: {"model": NeighboursResponse, "description": "The nearest uses and words."}},
    openapi_extra=json_request(NeighboursRequest),
)
async def neighbours(request: Request) -> Response:
    """Return the uses of words in an indexed text that are nearest to a token in its sentence.

    Cosines are those of centred vectors: the mean of each layer (`/info/centre`) is subtracted.
    Without `ELMO_INDEX` a text that comes with the program is searched. It is embedded when it is
    first asked for; until then the response is 503, and says how far it is.
    """
    async with EmbeddingCall(request) as call:
        body = await call.body(NeighboursRequest)
        wanted = body.request
        model = call.models.get(wanted.model)
        weights = _weights(wanted, model)
        index = model.uses.get()
        texts = await call.tokenize(model, body, wanted.tokenizer)
        check_each_has_tokens(body, texts)
        check_token(wanted.token, texts.lengths[0], "/token")
        output = select("all", model.info.layers)
        embedded = await call.embed(model, body, texts, output, _VECTORS_FACTOR)
        tokens: list[str] = orjson.loads(texts.sentences[0])
        layers = embedded.vectors[0].numpy()[:, wanted.token]
        found = await call.search(_search, index, layers, weights, wanted, tokens)
        members: dict[str, Any] = {
            "model": model.name,
            "revision": model.info.revision,
            "tokens": tokens,
            "token": wanted.token,
            **found,
            "index": IndexedText.of(index).model_dump(),
            "usage": {"sentences": 1, "tokens": len(tokens)},
        }
        return call.response([orjson.dumps(members)])


def _search(
    index: UsesIndex,
    layers: NDArray[np.float32],
    weights: tuple[float, ...],
    wanted: NeighboursRequest,
    tokens: list[str],
) -> dict[str, Any]:
    """Map the layers (L + 1, 2P) of a token to its neighbours."""
    count = wanted.k or DEFAULT_COUNT
    uses = index.nearest_uses(layers, weights, count, tokens)
    words = index.nearest_words(layers[0], count, tokens[wanted.token])
    return {"neighbours": list(map(asdict, uses)), "static": list(map(asdict, words))}


def _weights(wanted: NeighboursRequest, model: ServedModel) -> tuple[float, ...]:
    """Return the share of each layer in the vectors to compare."""
    output = model.output(wanted, "top")
    if output.layer_norm:
        at = "/task" if wanted.task is not None else "/mix/layer_norm"
        detail = "normalises the layers of each sentence, which an index does not keep"
        raise InvalidRequest.of(FieldError(at, detail))
    if output.layers is not None:
        return tuple(float(layer in output.layers) for layer in range(model.info.layers))
    raw = np.asarray(output.weights, np.float64)
    shares = np.exp(raw - raw.max())
    return tuple((shares / shares.sum()).tolist())
