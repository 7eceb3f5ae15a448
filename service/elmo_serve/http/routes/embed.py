"""POST /embed: tokenised sentences or text in, ELMo vectors out."""

import functools
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from elmo_serve.errors import DeadlineExceeded, InvalidRequest, SentenceFailed
from elmo_serve.http import media_types as encodings
from elmo_serve.http.media_types.encoder import Encoder
from elmo_serve.http.plain_route import PlainRoute
from elmo_serve.http.request import headers
from elmo_serve.http.request.body import SMALL_BODY_BYTES, Body
from elmo_serve.http.request.parsing import Options, Parsed, TextRequest, parse, text_pointer
from elmo_serve.http.request.wait import RequestWait
from elmo_serve.http.routes import embed_document
from elmo_serve.http.routes.embed_response import VectorsResponse, embeddings_of, encode, note
from elmo_serve.http.served_models import ServedModel
from elmo_serve.http.state import Server
from elmo_serve.http.text.splitting import tokenize
from elmo_serve.output import (
    Dtype,
    Output,
    Pooling,
    SelectionError,
    mix_faults,
    select,
    with_word_vectors,
)
from elmo_serve.scheduling.engine import Embedded
from elmo_serve.scheduling.quotas import Hold
from elmo_serve.scheduling.request import cost_of

router = APIRouter(route_class=PlainRoute, tags=["Vectors"])


@router.post(
    "/embed",
    operation_id="embed",
    name="embed",
    summary="Embed tokenised sentences or text",
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
            output = _with_word_vectors(_output(parsed.options, model), parsed.options, model)
            reservation = _reserve(server, model, parsed, output, encoding)
            unless_answered.callback(reservation.release)
            embedded = await _embedded(server, scope, model, parsed, output, deadline)
        answer = embeddings_of(model, parsed, output, embedded)
        start = time.perf_counter()
        pieces = await encode(answer, embedded, encoding, server, deadline)
        timing = note(scope, answer, embedded, time.perf_counter() - start)
        unless_answered.pop_all()
    extra = {"x-warnings": parsed.warnings.count or None, "x-unknown-share": answer.unknown_share}
    return VectorsResponse(encoding, timing, pieces, reservation, extra)


@functools.lru_cache(maxsize=64)
def _choose(accept: tuple[str, ...]) -> Encoder:
    """Return the encoding for some Accept headers; clients send few different ones."""
    return encodings.choose(accept)


async def _parsed_body(
    server: Server, scope: Scope, receive: Receive, timeout_seconds: float, wait: RequestWait
) -> Parsed:
    """Receive the body and parse it, a large one in another process; split text into tokens.

    Raises:
        DeadlineExceeded: it took longer than `timeout_seconds`.
        ServiceError: see `Body.receive`, `parse`, `JsonWorkerPool.parse` and `tokenize`.
    """
    limits = server.request_limits
    step = "The body had not come"

    def overdue() -> DeadlineExceeded:
        server.metrics.failures.labels("deadline").inc()
        return DeadlineExceeded(f"{step} within {timeout_seconds:g} s.")

    wait.limit(timeout_seconds, overdue)
    with Body(scope, server.receiving) as body:
        await body.receive(receive)
        wait.end_on_disconnect(receive)
        if body.size <= SMALL_BODY_BYTES:
            parsed = parse(body.content, limits)
        else:
            parsed = await server.json_workers.parse(parse, body, limits)
        if parsed.text is not None:
            step = "The text was not split into tokens"
            parsed = await _tokenized(server, parsed, parsed.text)
        server.load_shedder.learn(body.size, cost_of(parsed.lengths))
    wait.unlimit()
    if parsed.warnings.count:
        server.metrics.token_warnings.inc(parsed.warnings.count)
    return parsed


async def _tokenized(server: Server, parsed: Parsed, text: TextRequest) -> Parsed:
    """Return a request with the tokens of its text as sentences."""
    model = server.models.get(text.model).info
    found = await tokenize(server, text.texts, text.tokenizer, model=model)
    return replace(
        parsed,
        sentences=found.sentences,
        lengths=found.lengths,
        warnings=found.warnings,
        offsets=found.offsets,
        text=replace(text, texts=[], tokenizer=text.tokenizer or model.tokenizer),
    )


async def _embedded(
    server: Server,
    scope: Scope,
    model: ServedModel,
    parsed: Parsed,
    output: Output,
    deadline: float,
) -> Embedded:
    """Compute the vectors; see `Engine.embed`."""
    try:
        return await server.engine.embed(
            parsed.sentences,
            parsed.lengths,
            output,
            deadline - time.monotonic(),
            headers.client(scope),
            model.name,
        )
    except SentenceFailed as error:
        if parsed.text is None:
            raise
        raise error.at(text_pointer(error.index)) from None


def _output(options: Options, model: ServedModel) -> Output:
    """Return the output that the options mean for `model`."""
    layers = model.info.layers
    if options.task is not None:
        task = model.tasks.get(options.task)
        return _mixture(options, task.weights, task.gamma, task.layer_norm)
    if (mix := options.mix) is not None:
        if faults := mix_faults(mix.weights, mix.gamma, layers, ("mix",)):
            raise InvalidRequest.of(*faults)
        return _mixture(options, tuple(mix.weights), mix.gamma, mix.layer_norm)
    names = options.layers if isinstance(options.layers, str) else tuple(options.layers)
    try:
        return _selected(names, layers, options.pooling, options.dtype, options.normalize)
    except SelectionError as error:
        raise InvalidRequest.of(*error.faults) from None


def _with_word_vectors(output: Output, options: Options, model: ServedModel) -> Output:
    if not options.word_vectors:
        return output
    words = model.info.word_vectors
    try:
        return with_word_vectors(output, None if words is None else words.dimension)
    except SelectionError as error:
        raise InvalidRequest.of(*error.faults) from None


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


def _reserve(
    server: Server, model: ServedModel, parsed: Parsed, output: Output, encoding: Encoder
) -> Hold:
    """Count the bytes of the response that is about to be made."""
    dimension = model.info.dimension
    size = sum(
        output.size(length, dimension) * count for length, count in Counter(parsed.lengths).items()
    )
    size *= encoding.memory_factor
    if parsed.text is not None:
        size += sum(map(len, parsed.sentences)) + sum(map(len, parsed.offsets))
    return server.engine.admission.reserve(size, model.name)
