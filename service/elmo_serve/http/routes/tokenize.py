"""POST /tokenize: text in, tokens and their offsets out."""

from typing import Any, Final

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Scope

from elmo_serve.errors import DeadlineExceeded, Overloaded
from elmo_serve.http.errors.problem_details import BODY_ERRORS, REQUEST_ID, documented
from elmo_serve.http.helpers.text_pool import TokenizedTexts
from elmo_serve.http.media_types.encoder import json_array
from elmo_serve.http.plain_route import PlainRoute
from elmo_serve.http.request import headers
from elmo_serve.http.request.body import SMALL_BODY_BYTES, Body
from elmo_serve.http.request.parsing import TextRequest, parse_tokenize
from elmo_serve.http.routes.embed_document import WARNINGS, component, json_request
from elmo_serve.http.schemas.text import TokenizeRequest, TokenizeResponse
from elmo_serve.http.state import Server
from elmo_serve.http.text.splitting import text_warnings, tokenize

router = APIRouter(route_class=PlainRoute, tags=["Vectors"])

_JSON: Final = "application/json"

_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    **documented((*BODY_ERRORS, Overloaded)),
    200: {
        "description": "The tokens of each text and their offsets.",
        "headers": {"X-Request-Id": REQUEST_ID, "X-Warnings": WARNINGS},
        "content": {_JSON: {"schema": component(TokenizeResponse)}},
    },
}


@router.post(
    "/tokenize",
    operation_id="tokenize",
    name="tokenize",
    summary="Split text into tokens",
    response_class=Response,
    responses=_RESPONSES,
    openapi_extra=json_request(TokenizeRequest),
)
async def tokenize_texts(request: Request) -> Response:
    """Return the tokens that POST /embed makes of the same `text`, without their vectors."""
    scope: Scope = request.scope
    server: Server = request.app.state.server
    seconds = headers.timeout_seconds(scope, server.settings.request_timeout_seconds)
    headers.check_json(scope)

    def overdue() -> DeadlineExceeded:
        server.metrics.failures.labels("deadline").inc()
        return DeadlineExceeded(f"The texts had not come, or were not split, within {seconds:g} s.")

    with server.waits.begin() as wait, Body(scope, server.receiving) as body:
        wait.limit(seconds, overdue)
        await body.receive(request.receive)
        wait.end_on_disconnect(request.receive)
        name, found = await _tokenized(server, body)
    return _response(server, name, found)


async def _tokenized(server: Server, body: Body) -> tuple[str, TokenizedTexts]:
    """Parse a body and split its texts; return the name of the tokenizer and the tokens."""
    asked: TextRequest
    if body.size <= SMALL_BODY_BYTES:
        asked = parse_tokenize(body.content, server.request_limits)
    else:
        asked = await server.json_workers.parse(parse_tokenize, body, server.request_limits)
    model = server.models.get(asked.model).info
    found = await tokenize(server, asked.texts, asked.tokenizer, model=model)
    return asked.tokenizer or model.tokenizer, found


def _response(server: Server, name: str, found: TokenizedTexts) -> Response:
    parts = [
        b'{"tokenizer":',
        orjson.dumps(name),
        b',"tokens":',
        json_array(found.sentences),
        b',"offsets":',
        json_array(found.offsets),
    ]
    sent = {}
    if found.warnings.count:
        server.metrics.token_warnings.inc(found.warnings.count)
        parts += [b',"warnings":', orjson.dumps(text_warnings(found.warnings))]
        sent["X-Warnings"] = str(found.warnings.count)
    return Response(b"".join((*parts, b"}")), headers=sent, media_type=_JSON)
