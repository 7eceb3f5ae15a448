"""POST /embed: tokenised sentences in, ELMo vectors out."""

from __future__ import annotations

import asyncio
import functools
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, overload

from fastapi import APIRouter
from numpy.typing import NDArray
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from elmo_serve.errors import (
    DeadlineExceeded,
    FieldError,
    InvalidRequest,
)
from elmo_serve.http import headers
from elmo_serve.http import media_types as encodings
from elmo_serve.http import request_body as arriving
from elmo_serve.http.disconnect import unless_client_leaves
from elmo_serve.http.media_types import json_text
from elmo_serve.http.media_types.encoder import Chunk, Embeddings, Encoder
from elmo_serve.http.media_types.response import send_chunks
from elmo_serve.http.parsing import Options, Parsed, RequestLimits, parse
from elmo_serve.http.routes import embed_document
from elmo_serve.http.schemas import Mix
from elmo_serve.http.state import Server
from elmo_serve.output import Output, SelectionError, mix_faults, select
from elmo_serve.scheduling.engine import Embedded
from elmo_serve.scheduling.quotas import Hold
from elmo_serve.scheduling.request import cost_of
from elmo_serve.workers.json_worker import SMALL_BODY_BYTES
from elmo_serve.workers.messages import ModelInfo
from elmo_serve.workers.shared_memory import Vectors

router = APIRouter()

_ENCODED_HERE = 1 << 18  # bytes of vectors whose checksum holds the event loop less than 1 ms
_SENTENCES_HERE = 32  # likewise: each has a header of its own
_JSON_FACTOR = 4  # a float32 is 4 bytes, and some 11 to 12 more as text


@router.post(
    "/embed",
    name="embed",
    summary="Embed tokenised sentences",
    response_class=Response,
    responses=embed_document.RESPONSES,
    openapi_extra=embed_document.REQUEST,
)
async def declared() -> Response:
    """Return the vectors of every sentence, in the order of the request and never padded.

    The answer depends on the request alone: not on what else the server is asked, nor when.
    """
    return _Embedding()


class _Embedding(Response):
    """Leaves the request to ``embed``, which answers it as it would without the framework."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await embed(scope, receive, send)


async def embed(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request as plain ASGI.

    The framework's routing, dependencies and responses take longer than all that is done here.
    """
    scope["route"] = _ROUTE
    server: Server = scope["app"].state.server
    # Nothing else is kept here: what was sent, and what it was made of, is free again at once.
    head, pieces, reservation = await _answer(scope, receive, server)
    try:
        await send_chunks(send, head, pieces)
    finally:
        reservation.release()


async def _answer(scope: Scope, receive: Receive, server: Server) -> _Answered:
    timeout_seconds = headers.timeout_seconds(scope, server.settings.request_timeout_seconds)
    encoding = _choose(headers.every(scope, b"accept"))
    headers.check_json(scope)
    deadline = time.monotonic() + timeout_seconds
    parsed = await _read(receive, server, timeout_seconds)
    info = server.info
    output = _settle(parsed.options, info, server)
    size = sum(
        output.size(length, info.dimension) * count
        for length, count in Counter(parsed.lengths).items()
    )
    factor = _JSON_FACTOR if encoding is _JSON else 1
    reservation = server.engine.admission.reserve(factor * size)
    try:
        embedded = await unless_client_leaves(
            receive,
            server.engine.embed(
                parsed.sentences,
                parsed.lengths,
                output,
                deadline - time.monotonic(),
                _client(scope),
            ),
        )
        answer = Embeddings(
            model=info.name,
            revision=info.revision,
            dimension=info.dimension,
            layers=output.layers,
            tokens=sum(parsed.lengths),
            arrays=_Arrays(embedded.vectors),
            sentences=parsed.sentences,
            shape=output.shape(-1, info.dimension),
            dtype=output.dtype,
        )
        start = time.perf_counter()
        pieces = await _encode(answer, embedded, encoding, server, size, deadline)
        encode_seconds = time.perf_counter() - start
        scope["state"]["account"].update(
            sentences=len(parsed.lengths),
            tokens=answer.tokens,
            queue_seconds=round(embedded.queue_seconds, 4),
            infer_seconds=round(embedded.infer_seconds, 4),
            encode_seconds=round(encode_seconds, 4),
        )
        timing = (
            f"queue;dur={embedded.queue_seconds * 1e3:.1f}, "
            f"infer;dur={embedded.infer_seconds * 1e3:.1f}, encode;dur={encode_seconds * 1e3:.1f}"
        )
        head = (
            (b"content-type", encoding.media_type.encode()),
            (b"vary", b"Accept"),
            (b"server-timing", timing.encode()),
        )
        return head, pieces, reservation
    except BaseException:
        reservation.release()
        raise


_Answered = tuple[tuple[tuple[bytes, bytes], ...], list[Chunk], Hold]
_ROUTE = router.routes[0]
_JSON = json_text.ENCODER


def _client(scope: Scope) -> str:
    """Return whose request it is: that of an API key, or of an address."""
    known: str | None = scope["state"].get("client")
    address = scope["client"]
    return known or (address[0] if address else "")


@functools.lru_cache(maxsize=64)
def _choose(accept: tuple[str, ...]) -> Encoder:
    """Return the encoding for some Accept headers; clients send few different ones."""
    return encodings.choose(accept)


async def _read(receive: Receive, server: Server, timeout_seconds: float) -> Parsed:
    """Take the body in and parse it; a large one in another process."""
    limits = RequestLimits(
        server.settings.max_request_sentences, server.settings.max_sentence_tokens
    )
    try:
        async with asyncio.timeout(timeout_seconds):
            body = server.writers.body()
            async for chunk in arriving.chunks(receive):
                body.add(chunk)
            if body.size <= SMALL_BODY_BYTES:
                parsed = parse(body.text, limits)
            else:
                parsed = await server.writers.parse(body, limits)
    except TimeoutError:
        server.metrics.failures.labels("deadline").inc()
        raise arriving.not_come(timeout_seconds) from None
    server.door.learn(body.size, cost_of(parsed.lengths))
    return parsed


def _settle(options: Options, info: ModelInfo, server: Server) -> Output:
    """Return what the engine is to make of every sentence."""
    layers = info.layers
    if options.task is not None:
        task = server.tasks.get(options.task)
        return _mixture(options, task.weights, task.gamma, task.layer_norm)
    if (mix := options.mix) is not None:
        _check_mix(mix, layers)
        return _mixture(options, tuple(mix.weights), mix.gamma, mix.layer_norm)
    try:
        return select(options.layers, layers, pooling=options.pooling, dtype=options.dtype)
    except SelectionError as error:
        raise _invalid(error.faults) from None


def _mixture(
    options: Options, weights: tuple[float, ...], gamma: float, layer_norm: bool
) -> Output:
    return Output(
        weights=weights,
        gamma=gamma,
        layer_norm=layer_norm,
        pooling=options.pooling,
        dtype=options.dtype,
    )


def _check_mix(mix: Mix, layers: int) -> None:
    if faults := mix_faults(mix.weights, mix.gamma, layers, ("mix",)):
        raise _invalid(faults)


def _invalid(faults: Sequence[FieldError]) -> InvalidRequest:
    return InvalidRequest(f"{faults[0].pointer}: {faults[0].detail}", errors=faults)


async def _encode(
    answer: Embeddings,
    embedded: Embedded,
    encoding: Encoder,
    server: Server,
    size: int,
    deadline: float,
) -> list[Chunk]:
    """Make the body: JSON in other processes, large checksums in a thread, the rest here."""
    is_small = size <= _ENCODED_HERE and len(answer.arrays) <= _SENTENCES_HERE
    if is_small and encoding is not _JSON:
        return encoding.encode(answer)
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            if encoding is _JSON:
                sentences = await server.writers.write(embedded.vectors)
                return [json_text.head(answer), *sentences, json_text.tail(answer)]
            return await asyncio.to_thread(encoding.encode, answer)
    except TimeoutError:
        server.metrics.failures.labels("deadline").inc()
        raise DeadlineExceeded("The vectors were there in time, but not yet written.") from None


class _Arrays(Sequence[NDArray[Any]]):
    """The arrays of some vectors, each made when it is asked for."""

    def __init__(self, vectors: Sequence[Vectors]) -> None:
        self._vectors = vectors

    def __len__(self) -> int:
        return len(self._vectors)

    @overload
    def __getitem__(self, index: int) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[NDArray[Any]]: ...
    def __getitem__(self, index: int | slice) -> NDArray[Any] | list[NDArray[Any]]:
        if isinstance(index, slice):
            return [vectors.numpy() for vectors in self._vectors[index]]
        return self._vectors[index].numpy()
