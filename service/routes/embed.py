"""POST /embed: tokenised sentences in, ELMo vectors out."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar, overload

from fastapi import APIRouter, Request
from numpy.typing import NDArray
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from service import encodings
from service.batching.engine import Embedded
from service.batching.job import Vectors
from service.dependencies import Server, TheServer
from service.encodings import json_text
from service.encodings.answer import Answer, Chunk, Encoding
from service.encodings.sending import Pieces
from service.encodings.writers import SMALL_BODY_BYTES
from service.errors import (
    DeadlineExceeded,
    FieldError,
    InvalidRequest,
    pointer,
    shown,
)
from service.parsing import Parsed, RequestLimits, parse
from service.routes import embed_document, json_body
from service.schemas import EmbedRequest, Mix
from service.tasks import mix_faults
from service.workers.protocol import Output

router = APIRouter()

_ENCODED_HERE = 1 << 18  # bytes of vectors whose checksum holds the event loop less than 1 ms
_SENTENCES_HERE = 32  # likewise: each has a header of its own
_JSON_FACTOR = 4  # a float32 is 4 bytes, and some 11 to 12 more as text

_T = TypeVar("_T")


@router.post(
    "/embed",
    summary="Embed tokenised sentences",
    response_class=Response,
    responses=embed_document.RESPONSES,
    openapi_extra=embed_document.REQUEST,
)
async def embed(request: Request, server: TheServer) -> Response:
    """Return the vectors of every sentence, in the order of the request and never padded.

    The answer depends on the request alone: not on what else the server is asked, nor when.
    """
    timeout_seconds = _timeout(request, server.settings.request_timeout_seconds)
    encoding = encodings.choose(request.headers.getlist("accept"))
    json_body.check(request)
    deadline = time.monotonic() + timeout_seconds
    parsed = await _read(request, server, timeout_seconds)
    output = _settle(parsed.options, server)
    info = server.info
    size = sum(
        output.size(length, info.dimension) * count
        for length, count in Counter(parsed.lengths).items()
    )
    reservation = server.engine.reserve(size * _JSON_FACTOR if encoding is _JSON else size)
    try:
        embedded = await _unless_client_leaves(
            request,
            server.engine.embed(
                parsed.sentences, parsed.lengths, output, deadline - time.monotonic()
            ),
        )
        answer = Answer(
            model=info.name,
            revision=info.revision,
            dimension=info.dimension,
            layers=output.layers,
            tokens=sum(parsed.lengths),
            arrays=_Arrays(embedded.vectors),
        )
        start = time.perf_counter()
        async with asyncio.timeout(deadline - time.monotonic()):
            chunks = await _encode(answer, embedded, encoding, server, size)
        encode_seconds = time.perf_counter() - start
    except BaseException as error:
        reservation.release()
        if isinstance(error, TimeoutError):
            server.metrics.failures.labels("deadline").inc()
            raise DeadlineExceeded(
                f"The vectors were not written within {timeout_seconds:g} s."
            ) from None
        raise
    request.state.account.update(
        sentences=len(parsed.lengths),
        tokens=answer.tokens,
        queue_seconds=round(embedded.queue_seconds, 4),
        infer_seconds=round(embedded.infer_seconds, 4),
        encode_seconds=round(encode_seconds, 4),
    )
    headers = {
        "content-type": encoding.media_type,
        "vary": "Accept",
        "server-timing": f"queue;dur={embedded.queue_seconds * 1e3:.1f}, "
        f"infer;dur={embedded.infer_seconds * 1e3:.1f}, encode;dur={encode_seconds * 1e3:.1f}",
    }
    return Pieces(chunks, headers, reservation.release)


_JSON = json_text.ENCODING
_NUMBER: Final = re.compile(r"[0-9]+([.][0-9]*)?([eE][+-]?[0-9]+)?|[.][0-9]+([eE][+-]?[0-9]+)?")


def _timeout(request: Request, most: float) -> float:
    """Return the seconds that the client allows, capped by the server's own limit."""
    sent = request.headers.get("x-request-timeout")
    if sent is None:
        return most
    seconds = float(sent) if _NUMBER.fullmatch(sent) else math.nan
    if not 0 < seconds < math.inf:
        raise InvalidRequest(
            f"X-Request-Timeout is {shown(sent)}; it is a number of seconds above 0."
        )
    return min(seconds, most)


async def _read(request: Request, server: Server, timeout_seconds: float) -> Parsed:
    """Take the body in and parse it; a large one in another process."""
    limits = RequestLimits(
        server.settings.max_request_sentences, server.settings.max_sentence_tokens
    )
    try:
        async with asyncio.timeout(timeout_seconds):
            body = server.writers.body()
            async for chunk in request.stream():
                body.add(chunk)
            if body.size <= SMALL_BODY_BYTES:
                return parse(body.text, limits)
            return await server.writers.parse(body, limits)
    except TimeoutError:
        server.metrics.failures.labels("deadline").inc()
        raise DeadlineExceeded(f"The body had not come within {timeout_seconds:g} s.") from None


def _settle(options: EmbedRequest, server: Server) -> Output:
    """Return what the engine is to make of every sentence."""
    layers = server.info.layers
    if "task" in options.model_fields_set:
        task = server.tasks.get(options.task)
        return _mixture(options, task.weights, task.gamma, task.layer_norm)
    if "mix" in options.model_fields_set:
        _check_mix(options.mix, layers)
        mix = options.mix
        return _mixture(options, tuple(mix.weights), mix.gamma, mix.layer_norm)
    match options.layers:
        case "average":
            return _mixture(options, (0.0,) * layers, 1.0, False)
        case "all":
            return _selection(options, tuple(range(layers)), stacked=True)
        case "top":
            return _selection(options, (layers - 1,), stacked=False)
        case numbers:
            return _selection(options, _checked(numbers, layers), stacked=True)


def _mixture(
    options: EmbedRequest, weights: tuple[float, ...], gamma: float, layer_norm: bool
) -> Output:
    return Output(
        weights=weights,
        gamma=gamma,
        layer_norm=layer_norm,
        pooling=options.pooling,
        dtype=options.dtype,
    )


def _selection(options: EmbedRequest, numbers: tuple[int, ...], *, stacked: bool) -> Output:
    return Output(layers=numbers, stacked=stacked, pooling=options.pooling, dtype=options.dtype)


def _checked(numbers: list[int], layers: int) -> tuple[int, ...]:
    errors = [
        FieldError(
            pointer("layers", index), f"there is no layer {number}; there are 0 to {layers - 1}"
        )
        for index, number in enumerate(numbers)
        if number >= layers
    ]
    if len(numbers) > layers:
        errors.append(FieldError(pointer("layers"), f"{len(numbers)} layers; there are {layers}"))
    if errors:
        raise InvalidRequest(f"{errors[0].pointer}: {errors[0].detail}", errors=errors)
    return tuple(numbers)


def _check_mix(mix: Mix, layers: int) -> None:
    if errors := mix_faults(mix.weights, mix.gamma, layers, ("mix",)):
        raise InvalidRequest(f"{errors[0].pointer}: {errors[0].detail}", errors=errors)


async def _encode(
    answer: Answer, embedded: Embedded, encoding: Encoding, server: Server, size: int
) -> list[Chunk]:
    """Make the body: JSON in other processes, large checksums in a thread, the rest here."""
    if encoding is _JSON:
        sentences = await server.writers.write(embedded.vectors)
        return [json_text.head(answer), *sentences, json_text.tail(answer)]
    if size > _ENCODED_HERE or len(answer.arrays) > _SENTENCES_HERE:
        return await asyncio.to_thread(encoding.encode, answer)
    return encoding.encode(answer)


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


async def _unless_client_leaves(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """Await ``work``, and cancel it when the client hangs up before it is done."""
    task = asyncio.current_task()
    assert task is not None
    has_left = is_over = False

    def cancel(_: asyncio.Future[None]) -> None:
        nonlocal has_left
        if not is_over:  # it may have been scheduled just before
            has_left = True
            task.cancel()

    watcher = asyncio.ensure_future(_left(request))
    watcher.add_done_callback(cancel)
    try:
        return await work
    except asyncio.CancelledError:
        if not has_left:
            raise
        task.uncancel()
        raise ClientDisconnect from None
    finally:
        is_over = True
        watcher.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
