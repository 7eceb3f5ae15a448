"""POST /tokenize: text in, tokens and their offsets out."""

from typing import Any, Final

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from elmo_serve.http.calls.call import EmbeddingCall
from elmo_serve.http.calls.tokenize import listed_warnings
from elmo_serve.http.error_responses import BODY_ERRORS, REQUEST_ID, documented
from elmo_serve.http.media_types.encoder import json_array
from elmo_serve.http.routes.common import WARNINGS, PlainRoute, component, json_request
from elmo_serve.http.schemas.text import TokenizeRequest, TokenizeResponse

router = APIRouter(route_class=PlainRoute, default_response_class=Response, tags=["Vectors"])

_JSON: Final = "application/json"

_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    **documented(BODY_ERRORS),
    200: {
        "description": "The tokens of each text and their offsets.",
        "headers": {"X-Request-Id": REQUEST_ID, "X-Warnings": WARNINGS},
        "content": {_JSON: {"schema": component(TokenizeResponse)}},
    },
}


@router.post(
    "/tokenize",
    operation_id="tokenize",
    summary="Split text into tokens",
    responses=_RESPONSES,
    openapi_extra=json_request(TokenizeRequest),
)
async def tokenize_texts(request: Request) -> Response:
    """Return the tokens that POST /embed makes of the same `text`, without their vectors."""
    async with EmbeddingCall(request) as call:
        body = await call.body(TokenizeRequest)
        asked = body.request
        model = call.server.models.get(asked.model)
        found = await call.tokenize(model, body, asked.tokenizer)
        parts = [
            b'{"tokenizer":',
            orjson.dumps(asked.tokenizer or model.info.tokenizer),
            b',"tokens":',
            json_array(found.sentences),
            b',"offsets":',
            json_array(found.offsets),
        ]
        if found.warnings.count:
            parts += [b',"warnings":', orjson.dumps(listed_warnings(body, found.warnings))]
        call.reserve(sum(map(len, parts)))
        return call.response([*parts, b"}"], found)
