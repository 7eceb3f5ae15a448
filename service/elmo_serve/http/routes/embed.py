"""POST /embed: sentences or text in, ELMo vectors out. POST /tokenize: the tokens of text."""

import math
import time
from dataclasses import replace
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from elmo_serve.http import headers
from elmo_serve.http.call import EmbeddingCall, described
from elmo_serve.http.media_types import ENCODERS, json_text
from elmo_serve.http.media_types.encoder import SMALL_BYTES, Chunk, Embeddings, Encoder
from elmo_serve.http.models import ServedModel
from elmo_serve.http.routes.common import PlainRoute, json_or_bytes, json_request
from elmo_serve.http.schemas.embed import (
    EmbedRequest,
    EmbedResponse,
    TokenizeRequest,
    TokenizeResponse,
)
from elmo_serve.scheduling.engine import Embedded
from elmo_serve.selection import Output

_OPTIONS: Final[dict[str, Any]] = {
    "route_class": PlainRoute,
    "default_response_class": Response,
    "tags": ["Vectors"],
}
router, tokenize_router = APIRouter(**_OPTIONS), APIRouter(**_OPTIONS)

_FEW_SENTENCES: Final = 32
"""Sentences up to which a binary response is encoded on the event loop, if it is small as well:
each has a header of its own."""


@router.post(
    "/embed",
    operation_id="embed",
    summary="Embed tokenised sentences or text",
    responses={
        200: {
            "model": EmbedResponse,
            "description": "The vectors, in the media type that Accept prefers.",
            "content": json_or_bytes(ENCODERS),
        }
    },
    openapi_extra=json_request(EmbedRequest),
)
async def embed(request: Request) -> Response:
    """Return the vectors of every sentence, in the order of the request and never padded.

    The answer depends on the request alone: not on what else the server is asked, nor when.
    """
    encoder = ENCODERS[headers.accepted(request.scope, tuple(ENCODERS))]
    async with EmbeddingCall(request) as call:
        body = await call.body(EmbedRequest)
        asked = body.request
        model = call.models.get(asked.model)
        texts = await call.tokenize(model, body, asked.tokenizer)
        output = _output(asked, model)
        more_bytes = 0
        if body.member.name == "text":
            more_bytes = sum(map(len, texts.sentences)) + sum(map(len, texts.offsets))
        embedded = await call.embed(model, body, texts, output, encoder.memory_factor, more_bytes)
        answer = described(model, body, texts, output)
        start = time.perf_counter()
        chunks = await _encoded(call, answer, embedded, encoder)
        seconds = time.perf_counter() - start
        call.scope["state"]["log_fields"]["encode_seconds"] = round(seconds, 4)
        return call.response(chunks, *_headers(encoder, embedded, seconds))


def _output(asked: EmbedRequest, model: ServedModel) -> Output:
    """Return the output that a request asks `model` for."""
    return replace(
        model.output(asked, "all"),
        pooling=asked.pooling or "none",
        dtype=asked.dtype or "float32",
        normalize=bool(asked.normalize),
    )


async def _encoded(
    call: EmbeddingCall, answer: Embeddings, embedded: Embedded, encoder: Encoder
) -> list[Chunk]:
    """Encode the response: JSON in other processes, large checksums in a thread, the rest here."""
    if encoder is json_text.ENCODER:
        sentences = await call.json_of(embedded)
        return [json_text.head(answer), *sentences, json_text.tail(answer)]

    def encode() -> list[Chunk]:
        arrays = [vectors.numpy() for vectors in embedded.vectors]
        return encoder.encode(replace(answer, arrays=arrays))

    if len(embedded.vectors) <= _FEW_SENTENCES:
        numbers = sum(math.prod(vectors.shape) for vectors in embedded.vectors)
        if 4 * numbers <= SMALL_BYTES:
            return encode()
    return await call.in_thread(encode)


def _headers(
    encoder: Encoder, embedded: Embedded, encode_seconds: float
) -> list[tuple[bytes, bytes]]:
    timing = (
        f"queue;dur={embedded.queue_seconds * 1e3:.1f}, "
        f"infer;dur={embedded.infer_seconds * 1e3:.1f}, encode;dur={encode_seconds * 1e3:.1f}"
    )
    return [
        (b"content-type", encoder.media_type.encode()),
        (b"vary", b"Accept"),
        (b"server-timing", timing.encode()),
    ]


@tokenize_router.post(
    "/tokenize",
    operation_id="tokenize",
    summary="Split text into tokens",
    responses={
        200: {
            "model": TokenizeResponse,
            "description": "The tokens of each text and their offsets.",
        }
    },
    openapi_extra=json_request(TokenizeRequest),
)
async def tokenize_texts(request: Request) -> Response:
    """Return the tokens that POST /embed makes of the same `text`, without their vectors."""
    async with EmbeddingCall(request) as call:
        body = await call.body(TokenizeRequest)
        model = call.models.get(body.request.model)
        found = await call.tokenize(model, body, body.request.tokenizer)
        content = b"".join(json_text.text_members(described(model, body, found)))
        call.reserve(len(content))
        return call.response([b"{" + content[1:] + b"}"])
