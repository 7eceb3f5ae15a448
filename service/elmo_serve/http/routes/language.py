"""POST /score and POST /substitutes: the language model behind the vectors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import orjson
from fastapi import APIRouter, Request
from numpy.typing import NDArray
from starlette.responses import Response

from elmo_serve.errors import Conflict, FieldError, InvalidRequest, pointer
from elmo_serve.http import headers
from elmo_serve.http.body import Parsed, TokenizedTexts
from elmo_serve.http.call import EmbeddingCall, described
from elmo_serve.http.media_types import ENCODERS, json_text, npz
from elmo_serve.http.media_types.encoder import Chunk, Embeddings, Encoder
from elmo_serve.http.models import ServedModel
from elmo_serve.http.routes.common import PlainRoute, check_token, json_or_bytes, json_request
from elmo_serve.http.schemas.language import (
    DEFAULT_SUBSTITUTES,
    ScoreRequest,
    ScoreResponse,
    SubstitutesRequest,
    SubstitutesResponse,
)
from elmo_serve.scheduling.engine import Embedded
from elmo_serve.workers.language_results import Scores, Substitutes, Wanted
from elmo_serve.workers.messages import SoftmaxInfo

router = APIRouter(route_class=PlainRoute, tags=["Language model"])

_SENTENCE_BYTES: Final = 200
"""JSON of a sentence besides its numbers: the names of its members."""

_SCORE_TYPES: Final = (json_text.ENCODER.media_type, npz.ENCODER.media_type)


@router.post(
    "/score",
    operation_id="score",
    name="score",
    summary="Surprisal of each token",
    response_class=Response,
    responses={
        200: {
            "model": ScoreResponse,
            "description": "Surprisal in bits; npz has an array (3, tokens) for each sentence: "
            "forward, backward and their mean.",
            "content": json_or_bytes(_SCORE_TYPES),
        }
    },
    openapi_extra=json_request(ScoreRequest),
)
async def score(request: Request) -> Response:
    """Return the surprisal of each token in both directions, -log2 of its probability.

    The first token is predicted after the begin boundary, so it has a value as well. A token that
    is not in the vocabulary has the surprisal of `<UNK>`, and says so.
    """
    encoder = ENCODERS[headers.accepted(request.scope, _SCORE_TYPES)]
    async with EmbeddingCall(request) as call:
        body = await call.body(ScoreRequest)
        model, texts = await _prepared(call, body)
        softmax = _softmax(model)
        more_bytes = _SENTENCE_BYTES * len(texts.lengths)
        embedded = await call.embed(model, body, texts, Scores(), more_bytes=more_bytes)
        chunks = await call.in_thread(_scores, encoder, model, body, texts, embedded)
        content_type = (b"content-type", encoder.media_type.encode())
        vocabulary = (b"x-vocabulary", f"{softmax.words}/{softmax.total}".encode())
        return call.response(chunks, content_type, vocabulary, (b"vary", b"Accept"))


@router.post(
    "/substitutes",
    operation_id="findSubstitutes",
    name="substitutes",
    summary="The most probable words at a place",
    response_class=Response,
    responses={
        200: {"model": SubstitutesResponse, "description": "The words and their probabilities."}
    },
    openapi_extra=json_request(SubstitutesRequest),
)
async def substitutes(request: Request) -> Response:
    """Return the words that the language model expects at some places of each sentence.

    The token at the place is not looked at. Probabilities are those over the whole vocabulary;
    `<S>`, `</S>` and `<UNK>` are never listed.
    """
    async with EmbeddingCall(request) as call:
        body = await call.body(SubstitutesRequest)
        asked = body.request
        model, texts = await _prepared(call, body)
        _check_positions(asked, texts.lengths)
        count, direction = asked.k or DEFAULT_SUBSTITUTES, asked.direction or "both"
        outputs: list[Wanted] = [
            Substitutes(tuple(places), count, direction) for places in asked.positions
        ]
        embedded = await call.embed(model, body, texts, outputs, memory_factor=2)
        chunks = await call.in_thread(_substitutes, model, body, texts, embedded)
        return call.response(chunks)


async def _prepared(call: EmbeddingCall, body: Parsed[Any]) -> tuple[ServedModel, TokenizedTexts]:
    """Return the model, which has a softmax, and the tokens of a body."""
    model = call.models.get(body.request.model)
    _softmax(model)
    texts = await call.tokenize(model, body, body.request.tokenizer)
    return model, texts


def _softmax(model: ServedModel) -> SoftmaxInfo:
    """Return the words that a model predicts. Raises Conflict where it predicts none."""
    if (softmax := model.info.softmax) is None:
        name = model.name
        raise Conflict(f"The model {name!r} has no softmax with its vocabulary (ELMO_SOFTMAX).")
    return softmax


def _check_positions(asked: SubstitutesRequest, lengths: Sequence[int]) -> None:
    """Raise InvalidRequest unless each sentence has a list of distinct places in it."""
    if (found := len(asked.positions)) != len(lengths):
        detail = f"must have a list for each sentence, {len(lengths)} in all; found {found}"
        raise InvalidRequest.of(FieldError("/positions", detail))
    for index, (places, length) in enumerate(zip(asked.positions, lengths, strict=True)):
        if len(set(places)) != len(places):
            detail = "must not have a place twice"
            raise InvalidRequest.of(FieldError(pointer("positions", index), detail))
        for number, place in enumerate(places):
            check_token(place, length, pointer("positions", index, number))


def _scores(
    encoder: Encoder,
    model: ServedModel,
    body: Parsed[ScoreRequest],
    texts: TokenizedTexts,
    embedded: Embedded,
) -> list[Chunk]:
    """Encode surprisal as JSON or npz."""
    found = [vectors.numpy() for vectors in embedded.vectors]
    if encoder is npz.ENCODER:
        found = [_three_rows(values) for values in found]
        return encoder.encode(described(model, body, texts, arrays=found))
    answer = described(model, body, texts)
    return _json(answer, model, {"unit": "bits"}, "scores", map(_sentence, found))


def _three_rows(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Map the values (3, n + 1) of a worker to forward, backward and their mean (3, n)."""
    return np.concatenate((values[:2, :-1], values[:2, :-1].mean(axis=0, keepdims=True)))


def _sentence(values: NDArray[np.float32]) -> bytes:
    """Map the values (3, n + 1) of a worker to the JSON text of the scores of a sentence."""
    forward, backward, both = _three_rows(values)
    members = {
        "forward": forward,
        "backward": backward,
        "both": both,
        "unknown": values[2, :-1] > 0,
        "end": {"forward": values[0, -1], "backward": values[1, -1]},
    }
    return orjson.dumps(members, option=orjson.OPT_SERIALIZE_NUMPY)


def _substitutes(
    model: ServedModel,
    body: Parsed[SubstitutesRequest],
    texts: TokenizedTexts,
    embedded: Embedded,
) -> list[Chunk]:
    """Put the texts of the workers together, without the spaces behind each."""
    answer = described(model, body, texts)
    members = {"direction": body.request.direction or "both"}
    parts = (vectors.numpy().tobytes().rstrip() for vectors in embedded.vectors)
    return _json(answer, model, members, "substitutes", parts)


def _json(
    answer: Embeddings,
    model: ServedModel,
    members: Mapping[str, Any],
    name: str,
    items: Iterable[bytes],
) -> list[Chunk]:
    """Return the chunks of a JSON response: one item of the member `name` for each sentence."""
    softmax = _softmax(model)
    head = {
        "model": answer.model,
        **members,
        "vocabulary": softmax.words,
        "vocabulary_total": softmax.total,
    }
    start = orjson.dumps(head)[:-1] + b',"%s":[' % name.encode()
    return [start, b",".join(items), json_text.tail(answer)]
