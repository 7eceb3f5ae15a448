"""POST /embed: tokenised sentences in, ELMo vectors out."""

import asyncio
import functools
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Final, overload

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from numpy.typing import NDArray
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from elmo_serve.errors import DeadlineExceeded, FieldError, InvalidRequest
from elmo_serve.http import headers, request_body
from elmo_serve.http import media_types as encodings
from elmo_serve.http.media_types import json_text
from elmo_serve.http.media_types.encoder import Chunk, Embeddings, Encoder
from elmo_serve.http.media_types.response import send_chunks
from elmo_serve.http.request_body import SMALL_BODY_BYTES, Body, Options, Parsed, RequestLimits
from elmo_serve.http.request_wait import RequestWait
from elmo_serve.http.routes import embed_document
from elmo_serve.http.served_models import ServedModel
from elmo_serve.http.state import Server
from elmo_serve.output import Dtype, Output, Pooling, SelectionError, mix_faults, select
from elmo_serve.scheduling.engine import Embedded
from elmo_serve.scheduling.quotas import Hold
from elmo_serve.scheduling.request import cost_of
from elmo_serve.workers.shared_memory import Vectors


class PlainRoute(APIRoute):
    """A route whose endpoint takes the request and returns a response, without dependencies.

    Its ASGI application is the endpoint: the stacks that FastAPI opens for dependencies, and its
    second handling of exceptions, take longer than the queue takes for a small request.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            response: Response = await endpoint(Request(scope, receive))
            await response(scope, receive, send)

        self.app = app


router = APIRouter(route_class=PlainRoute)

_SMALL_BYTES: Final = 1 << 18
"""Bytes of vectors up to which they are encoded on the event loop: it takes less than 1 ms."""

_FEW_SENTENCES: Final = 32
"""Likewise for sentences: each has a header of its own."""

_JSON_FACTOR: Final = 4
"""Memory of a JSON response against its vectors: 4 bytes of a float32 and some 11 to 12 of text."""

_JSON: Final = json_text.ENCODER


@router.post(
    "/embed",
    name="embed",
    summary="Embed tokenised sentences",
    response_class=Response,
    responses=embed_document.RESPONSES,
    openapi_extra=embed_document.REQUEST,
)
async def embed(request: Request) -> Response:
    """Return the vectors of every sentence, in the order of the request and never padded.

    The answer depends on the request alone: not on what else the server is asked, nor when.
    """
    scope, receive = request.scope, request.receive
    server: Server = request.app.state.server
    timeout_seconds = headers.timeout_seconds(scope, server.settings.request_timeout_seconds)
    deadline = time.monotonic() + timeout_seconds
    encoding = _choose(headers.accept(scope))
    headers.check_json(scope)
    with ExitStack() as unless_answered:
        with server.waits.begin() as wait:
            parsed = await _parsed_body(server, scope, receive, timeout_seconds, wait)
            model = server.models.get(parsed.options.model)
            output = _output(parsed.options, model)
            reservation = _reserve(server, model, parsed, output, encoding)
            unless_answered.callback(reservation.release)
            wait.end_on_disconnect(receive)
            embedded = await server.engine.embed(
                parsed.sentences,
                parsed.lengths,
                output,
                deadline - time.monotonic(),
                headers.client(scope),
                model.name,
            )
        answer = _answer(model, parsed, output, embedded)
        start = time.perf_counter()
        pieces = await _encode(answer, embedded, encoding, server, deadline)
        timing = _note(scope, answer, embedded, time.perf_counter() - start)
        unless_answered.pop_all()
    return _Vectors(encoding, timing, pieces, reservation)


class _Vectors(Response):
    """A response in pieces; its reserved bytes are released when the last one is sent."""

    def __init__(
        self, encoding: Encoder, timing: str, pieces: list[Chunk], reservation: Hold
    ) -> None:
        # Not Response's own constructor, which would join and copy a body.
        self.background = None
        self.raw_headers = [
            (b"content-type", encoding.media_type.encode()),
            (b"vary", b"Accept"),
            (b"server-timing", timing.encode()),
        ]
        self._pieces = pieces
        self._reservation = reservation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send_chunks(send, self.raw_headers, self._pieces)
        finally:
            self._reservation.release()


@functools.lru_cache(maxsize=64)
def _choose(accept: tuple[str, ...]) -> Encoder:
    """Return the encoding for some Accept headers; clients send few different ones."""
    return encodings.choose(accept)


async def _parsed_body(
    server: Server, scope: Scope, receive: Receive, timeout_seconds: float, wait: RequestWait
) -> Parsed:
    """Receive the body and parse it, a large one in another process.

    Raises:
        DeadlineExceeded: both took longer than `timeout_seconds`.
        ServiceError: see `Body.receive`, `request_body.parse` and `JsonWorkerPool.parse`.
    """
    settings = server.settings
    limits = RequestLimits(settings.max_request_sentences, settings.max_sentence_tokens)

    def overdue() -> DeadlineExceeded:
        server.metrics.failures.labels("deadline").inc()
        return request_body.not_received(timeout_seconds)

    wait.limit(timeout_seconds, overdue)
    with Body(scope, server.receiving) as body:
        await body.receive(receive)
        if body.size <= SMALL_BODY_BYTES:
            parsed = request_body.parse(body.content, limits)
        else:
            parsed = await server.json_workers.parse(body, limits)
        server.load_shedder.learn(body.size, cost_of(parsed.lengths))
    wait.unlimit()
    return parsed


def _output(options: Options, model: ServedModel) -> Output:
    """Return the output that the options mean for `model`."""
    layers = model.info.layers
    if options.task is not None:
        task = model.tasks.get(options.task)
        return _mixture(options, task.weights, task.gamma, task.layer_norm)
    if (mix := options.mix) is not None:
        if faults := mix_faults(mix.weights, mix.gamma, layers, ("mix",)):
            raise _invalid(faults)
        return _mixture(options, tuple(mix.weights), mix.gamma, mix.layer_norm)
    names = options.layers if isinstance(options.layers, str) else tuple(options.layers)
    try:
        return _selected(names, layers, options.pooling, options.dtype, options.normalize)
    except SelectionError as error:
        raise _invalid(error.faults) from None


@functools.lru_cache(maxsize=256)
def _selected(
    layers: str | tuple[int, ...], count: int, pooling: Pooling, dtype: Dtype, normalize: bool
) -> Output:
    """Return one object for equal selections: a message to a worker holds it only once."""
    return select(layers, count, pooling=pooling, dtype=dtype, normalize=normalize)


def _mixture(
    options: Options, weights: tuple[float, ...], gamma: float, layer_norm: bool
) -> Output:
    return Output(
        weights=weights,
        gamma=gamma,
        layer_norm=layer_norm,
        pooling=options.pooling,
        dtype=options.dtype,
        normalize=options.normalize,
    )


def _invalid(faults: Sequence[FieldError]) -> InvalidRequest:
    return InvalidRequest(f"{faults[0].pointer}: {faults[0].detail}", errors=faults)


def _reserve(
    server: Server, model: ServedModel, parsed: Parsed, output: Output, encoding: Encoder
) -> Hold:
    """Count the bytes of the response that is about to be made."""
    dimension = model.info.dimension
    size = sum(
        output.size(length, dimension) * count for length, count in Counter(parsed.lengths).items()
    )
    size *= _JSON_FACTOR if encoding is _JSON else 1
    return server.engine.admission.reserve(size, model.name)


def _answer(model: ServedModel, parsed: Parsed, output: Output, embedded: Embedded) -> Embeddings:
    info = model.info
    return Embeddings(
        model=model.name,
        revision=info.revision,
        dimension=output.width(info.dimension),
        layers=output.layers,
        tokens=sum(parsed.lengths),
        arrays=_Arrays(embedded.vectors),
        sentences=parsed.sentences,
        shape=output.shape(-1, info.dimension),
        dtype=output.dtype,
    )


async def _encode(
    answer: Embeddings, embedded: Embedded, encoding: Encoder, server: Server, deadline: float
) -> list[Chunk]:
    """Encode the response: JSON in other processes, large checksums in a thread, the rest here.

    Raises:
        DeadlineExceeded: it took longer than until `deadline`.
    """
    if encoding is not _JSON and _is_small(embedded):
        return encoding.encode(answer)
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            if encoding is _JSON:
                sentences = await server.json_workers.write(embedded.vectors)
                return [json_text.head(answer), *sentences, json_text.tail(answer)]
            return await asyncio.to_thread(encoding.encode, answer)
    except TimeoutError:
        server.metrics.failures.labels("deadline").inc()
        raise DeadlineExceeded("The vectors were there in time, but not yet written.") from None


def _is_small(embedded: Embedded) -> bool:
    if len(embedded.vectors) > _FEW_SENTENCES:
        return False
    numbers = sum(math.prod(vectors.shape) for vectors in embedded.vectors)
    return 4 * numbers <= _SMALL_BYTES


def _note(scope: Scope, answer: Embeddings, embedded: Embedded, encode_seconds: float) -> str:
    """Add the request's figures to the access log; return them as a Server-Timing header."""
    scope["state"]["account"].update(
        sentences=len(answer.sentences),
        tokens=answer.tokens,
        queue_seconds=round(embedded.queue_seconds, 4),
        infer_seconds=round(embedded.infer_seconds, 4),
        encode_seconds=round(encode_seconds, 4),
    )
    return (
        f"queue;dur={embedded.queue_seconds * 1e3:.1f}, "
        f"infer;dur={embedded.infer_seconds * 1e3:.1f}, encode;dur={encode_seconds * 1e3:.1f}"
    )


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
