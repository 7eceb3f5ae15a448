"""/v1: the embeddings and models of OpenAI's API, for the clients that speak it."""

import base64
from dataclasses import replace
from typing import Any, Final

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from elmo_serve.errors import FieldError, InvalidRequest, UnknownModel
from elmo_serve.http.body import TokenizedTexts
from elmo_serve.http.call import EmbeddingCall
from elmo_serve.http.media_types import json_text
from elmo_serve.http.media_types.encoder import SMALL_BYTES, Chunk
from elmo_serve.http.models import ServedModel, ServedModels
from elmo_serve.http.routes.common import PlainRoute, TheServer, json_request
from elmo_serve.http.schemas.openai import (
    EmbeddingsRequest,
    EmbeddingsResponse,
    ModelCard,
    ModelList,
)
from elmo_serve.http.state import Server
from elmo_serve.http.texts import check_each_has_tokens
from elmo_serve.scheduling.engine import Embedded
from elmo_serve.selection import Output, mixture, select

router = APIRouter(tags=["OpenAI"])
embeddings_router = APIRouter(
    route_class=PlainRoute, default_response_class=Response, tags=["OpenAI"]
)

TASK_SEPARATOR: Final = "@"
"""Between the names of a model and of one of its tasks."""

_BASE64_FACTOR: Final = 2
"""Memory of a response in base64 against its vectors: 4 bytes of a float32 and 5.3 of text."""

_OWNER: Final = "elmo-serve"


@embeddings_router.post(
    "/v1/embeddings",
    operation_id="createEmbeddings",
    summary="Embed texts, as OpenAI",
    responses={200: {"model": EmbeddingsResponse, "description": "One unit vector a text."}},
    openapi_extra=json_request(EmbeddingsRequest),
)
async def embeddings(request: Request) -> Response:
    """Return one unit vector a text: the mean over its tokens of the mean of all layers.

    `model: "english@task"` mixes the layers as a task does. Texts without tokens are refused, and
    so are token ids, and `dimensions` other than the width of the model.
    """
    async with EmbeddingCall(request) as call:
        body = await call.body(EmbeddingsRequest)
        asked = body.request
        model, output, name = _chosen(call.models, asked.model)
        _check_dimensions(asked.dimensions, model.info.dimension)
        texts = await call.tokenize(model, body)
        check_each_has_tokens(body, texts)
        is_base64 = asked.encoding_format == "base64"
        factor = _BASE64_FACTOR if is_base64 else json_text.MEMORY_FACTOR
        embedded = await call.embed(model, body, texts, output, factor)
        if not is_base64:
            vectors = await call.json_of(embedded, as_objects=True)
        elif sum(4 * each.shape[-1] for each in embedded.vectors) <= SMALL_BYTES:
            vectors = _in_base64(embedded)
        else:
            vectors = await call.in_thread(_in_base64, embedded)
        return call.response(_list_of(vectors, name, texts))


@router.get("/v1/models", operation_id="listModels", summary="List the models, as OpenAI")
async def list_models(server: TheServer) -> ModelList:
    """Return the names that `model` may have: models, and models with a task."""
    return ModelList(object="list", data=[_card(server, name) for name in _names(server)])


@router.get("/v1/models/{name:path}", operation_id="getModel", summary="Get a model, as OpenAI")
async def get_model(name: str, server: TheServer) -> ModelCard:
    """Return one name, if the server knows it."""
    return _card(server, _chosen(server.models, name)[2])


def _chosen(models: ServedModels, name: str | None) -> tuple[ServedModel, Output, str]:
    """Return the model and the output that a name means, and the name as the server spells it."""
    try:
        model, task = models.get(name), ""
    except UnknownModel:
        of_model, _, task = (name or "").rpartition(TASK_SEPARATOR)
        if not of_model or not task:
            raise
        model = models.get(of_model)
    layers, known = model.info.layers, model.name
    output = select("average", layers)
    if task:
        known = f"{model.name}{TASK_SEPARATOR}{task}"
        output = mixture(model.tasks.get(task, model.owner), layers)
    return model, replace(output, pooling="mean", normalize=True), known


def _names(server: Server) -> list[str]:
    names = []
    for model in server.models:
        names.append(model.name)
        if model.condition.state in ("ready", "down"):
            tasks = model.tasks.list(model.owner)
            names += [f"{model.name}{TASK_SEPARATOR}{task.name}" for task in tasks]
    return names


def _card(server: Server, name: str) -> ModelCard:
    return ModelCard(id=name, object="model", created=server.started_at, owned_by=_OWNER)


def _in_base64(embedded: Embedded) -> list[Chunk]:
    """Return the objects of all vectors as little-endian float32 in base64, with commas."""
    objects = [
        b'{"object":"embedding","index":%d,"embedding":"%b"}'
        % (index, base64.b64encode(vectors.numpy().astype("<f4", copy=False).tobytes()))
        for index, vectors in enumerate(embedded.vectors)
    ]
    return [b",".join(objects)]


def _list_of(vectors: list[Chunk], model: str, texts: TokenizedTexts) -> list[Chunk]:
    tokens = sum(texts.lengths)
    rest: dict[str, Any] = {
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
    return [b'{"object":"list","data":[', *vectors, b"]," + orjson.dumps(rest)[1:]]


def _check_dimensions(wanted: int | None, width: int) -> None:
    """Raise InvalidRequest for vectors of another width than the model's own.

    Clients send the size that their vector store was made for.
    """
    if wanted is not None and wanted != width:
        detail = (
            f"must be {width}, the width of the model, or left out: parts of an ELMo vector are no "
            f"vector of their own; found {wanted}"
        )
        raise InvalidRequest.of(FieldError("/dimensions", detail))
