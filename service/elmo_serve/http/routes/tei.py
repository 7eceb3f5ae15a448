"""/tei: the bodies of text-embeddings-inference, for the clients that speak them."""

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from elmo_serve.http.calls.call import EmbeddingCall
from elmo_serve.http.calls.tokenize import check_dimensions, check_each_has_tokens
from elmo_serve.http.errors import bodies as error_bodies
from elmo_serve.http.errors.problem_details import EMBED_ERRORS
from elmo_serve.http.routes.embed_document import json_request
from elmo_serve.http.schemas.clients import TeiEmbedAllRequest, TeiEmbedRequest
from elmo_serve.http.schemas.text import Vector
from elmo_serve.http.state import PlainRoute
from elmo_serve.output import Pooling, select

router = APIRouter(
    route_class=PlainRoute, default_response_class=Response, tags=["Text Embeddings Inference"]
)

_ERRORS: Final = error_bodies.documented(EMBED_ERRORS, error_bodies.TEI)


_MODEL: Final = {
    "name": "model",
    "in": "query",
    "required": False,
    "description": "A model of the server. Default: the first one.",
    "schema": {"type": "string"},
}


async def embed(request: Request) -> Response:
    """Return one vector a text: the mean over its tokens of the mean of all layers.

    `POST /tei/embed`, `POST /tei` and `POST /` are the same: some clients post to the address that
    they are given, others add `/embed` to it.
    """
    return await _answered(request, TeiEmbedRequest, "mean")


for _path, _id in (("/tei/embed", "teiEmbed"), ("/tei", "teiEmbedBase"), ("/", "teiEmbedRoot")):
    router.add_api_route(
        _path,
        embed,
        methods=["POST"],
        operation_id=_id,
        summary="Embed texts, as text-embeddings-inference",
        responses={200: {"model": list[Vector], "description": "One vector a text."}, **_ERRORS},
        openapi_extra=json_request(TeiEmbedRequest, _MODEL),
    )


@router.post(
    "/tei/embed_all",
    operation_id="teiEmbedAll",
    summary="Embed every token of texts, as text-embeddings-inference",
    responses={
        200: {"model": list[list[Vector]], "description": "One list of vectors a text."},
        **_ERRORS,
    },
    openapi_extra=json_request(TeiEmbedAllRequest, _MODEL),
)
async def embed_all(request: Request) -> Response:
    """Return one vector a token: the mean of all layers, not normalised."""
    return await _answered(request, TeiEmbedAllRequest, "none")


async def _answered(
    request: Request, form: type[TeiEmbedRequest | TeiEmbedAllRequest], pooling: Pooling
) -> Response:
    with EmbeddingCall(request) as call:
        body = await call.body(form)
        asked = body.request
        model = call.server.models.get(request.query_params.get("model"))
        check_dimensions(asked.dimensions, model.info.dimension)
        side = (asked.truncation_direction or "right") if asked.truncate else None
        texts = await call.tokenize(model, body, truncate=side)
        check_each_has_tokens(body, texts)
        is_unit = isinstance(asked, TeiEmbedRequest) and asked.normalize is not False
        output = select("average", model.info.layers, pooling=pooling, normalize=is_unit)
        embedded = await call.embed(model, body, texts, output)
        vectors = await call.json_of(embedded)
        return call.response([b"[", *vectors, b"]"], texts)
