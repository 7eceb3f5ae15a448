"""From the body of a request to its vectors: the steps that every route that embeds shares."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, ParamSpec, Self, TypeVar

import orjson
from fastapi import Request
from starlette.types import Receive, Scope

from elmo_serve.errors import SentenceFailed
from elmo_serve.http import headers
from elmo_serve.http.calls.answer import ChunkedResponse
from elmo_serve.http.calls.body import SMALL_BODY_BYTES, Body
from elmo_serve.http.calls.parse import Parsed, RequestT, parse, parse_elsewhere
from elmo_serve.http.calls.tokenize import listed_warnings, tokenize
from elmo_serve.http.helpers import writing
from elmo_serve.http.helpers.text import TokenizedTexts
from elmo_serve.http.media_types import json_text
from elmo_serve.http.media_types.encoder import Chunk
from elmo_serve.http.served_models import ServedModel
from elmo_serve.http.state import Server
from elmo_serve.output import Wanted, interned
from elmo_serve.scheduling.engine import Embedded
from elmo_serve.scheduling.request import cost_of
from elmo_serve.tracing import Trace

P = ParamSpec("P")
T = TypeVar("T")

_NOT_PARSED: Final = "The body was not parsed within {:g} s."
_NOT_SPLIT: Final = "The texts were not split into tokens within {:g} s."
_NOT_COMPUTED: Final = "The vectors were not computed within {:g} s."
_NOT_WRITTEN: Final = "The vectors were computed within {:g} s, but the response was not written."

VECTORS_FACTOR: Final = 1
"""Memory of a small response that is computed from the vectors, against these."""


async def received(request: Request, max_bytes: int) -> bytes:
    """Return a small body of another kind.

    Raises:
        DeadlineExceeded, Unavailable: as the block of `EmbeddingCall`.
        ServiceError, DisconnectError: see `Body.receive`.
    """
    server: Server = request.app.state.server
    async with server.deadlines.begin(server.settings.request_timeout_seconds):
        with Body(request.scope, server.bodies, max_bytes) as body:
            await body.receive(request.receive)
            return body.take()


class EmbeddingCall:
    """One request with sentences or texts, up to its response.

    An async context manager, whose block ends early when the time of the request is over
    (DeadlineExceeded), when its client leaves (DisconnectError) and when the server stops
    (Unavailable). It frees the memory of the body, and of a call that is not answered.

    Raises InvalidRequest for a wrong `X-Request-Timeout`, and UnsupportedMediaType.
    """

    def __init__(self, request: Request) -> None:
        self.server: Server = request.app.state.server
        self.scope: Scope = request.scope
        self._receive: Receive = request.receive
        most = self.server.settings.request_timeout_seconds
        self._deadline = self.server.deadlines.begin(headers.timeout_seconds(self.scope, most))
        self._body = Body(self.scope, self.server.bodies)
        self._answer = self.server.engine.answers.hold(headers.client(self.scope))
        self._is_answered = False
        self._trace: Trace | None = self.scope["state"].get("trace")
        headers.media_type(self.scope)

    async def __aenter__(self) -> Self:
        await self._deadline.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        try:
            await self._deadline.__aexit__(*error)
        finally:
            self._body.release()
            if not self._is_answered:
                self._answer.release()

    async def body(self, model: type[RequestT]) -> Parsed[RequestT]:
        """Receive the body and parse it as `model`, a large one in another process.

        Raises:
            ServiceError: see `Body.receive` and `parse`.
            DisconnectError: the client left.
        """
        body, limits = self._body, self.server.models.request_limits
        headers.refuse_fields_in_query(self.scope, model.model_fields)
        await body.receive(self._receive)
        self._deadline.overdue = _NOT_PARSED
        self._deadline.end_on_disconnect(self._receive)
        self._end_stage("receive")
        if body.size <= SMALL_BODY_BYTES:
            found = parse(model, body.take(), limits)
        else:
            found = await parse_elsewhere(self.server.helpers.parsing, model, body, limits)
        self._end_stage("parse")
        return found

    async def tokenize(
        self,
        model: ServedModel,
        body: Parsed[RequestT],
        tokenizer: str | None = None,
    ) -> TokenizedTexts:
        """Return the tokens of a body as `tokenize.tokenize` does, and count its warnings.

        Raises ServiceError; see `tokenize.tokenize`.
        """
        self._deadline.overdue = _NOT_SPLIT
        found = await tokenize(self.server, model.info, body, tokenizer=tokenizer)
        self._end_stage("tokenize")
        if found.warnings.count:
            self.server.metrics.token_warnings.inc(found.warnings.count)
        return found

    async def embed(
        self,
        model: ServedModel,
        body: Parsed[RequestT],
        texts: TokenizedTexts,
        output: Wanted | list[Wanted],
        memory_factor: float = json_text.MEMORY_FACTOR,
        more_bytes: int = 0,
    ) -> Embedded:
        """Compute the results of all sentences, or of none.

        `output` is that of every sentence, or a list with one for each. The bytes of the response
        are reserved first: those of the results times `memory_factor`, and `more_bytes`.

        Raises:
            SentenceFailed: the model failed on a sentence; it points into the body.
            ServiceError: see `reserve` and `Engine.embed`.
        """
        outputs, size = _outputs(output, texts.lengths, model.info.dimension)
        self.reserve(int(size * memory_factor) + more_bytes)
        self._deadline.overdue = _NOT_COMPUTED
        try:
            embedded = await self.server.engine.embed(
                texts.sentences,
                texts.lengths,
                outputs,
                self._deadline.seconds_left,
                headers.client(self.scope),
                model.name,
                trace=self._trace,
            )
        except SentenceFailed as error:
            raise error.at(body.pointer(error.index)) from None
        self._deadline.overdue = _NOT_WRITTEN
        self.scope["state"]["log_fields"].update(
            sentences=len(texts.sentences),
            tokens=sum(texts.lengths),
            queue_seconds=round(embedded.queue_seconds, 4),
            infer_seconds=round(embedded.infer_seconds, 4),
        )
        return embedded

    def reserve(self, size: int) -> None:
        """Count bytes of the response until it is sent; raises as `Hold.add`."""
        self._answer.add(size)

    def learn(self, texts: TokenizedTexts) -> None:
        """Let the load shedder learn how many tokens, boundaries included, the body lets compute.

        A sentence counts once however it is repeated, so the estimate stays a lower bound.
        """
        cost = cost_of(dict(zip(texts.sentences, texts.lengths, strict=True)).values())
        self.server.load_shedder.learn(self._body.size, cost)

    async def json_of(self, embedded: Embedded, *, as_objects: bool = False) -> list[Chunk]:
        """Return the JSON of the vectors; see `writing.write`."""
        pool = self.server.helpers.writing
        return await writing.write(pool, embedded.vectors, as_objects=as_objects)

    async def in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Compute a part of the response in a thread.

        When the time is over, the thread keeps running and its result is discarded.
        """
        self._deadline.overdue = _NOT_WRITTEN
        return await asyncio.to_thread(work, *args, **kwargs)

    def _end_stage(self, name: str) -> None:
        if self._trace is not None:
            self._trace.end_stage(name)

    def json_response(
        self, members: dict[str, Any], body: Parsed[RequestT], texts: TokenizedTexts
    ) -> ChunkedResponse:
        """Return a response of some members of JSON, and `warnings` where there are any."""
        if texts.warnings.count:
            members["warnings"] = listed_warnings(body, texts.warnings)
        return self.response([orjson.dumps(members)], texts)

    def response(
        self, chunks: list[Chunk], texts: TokenizedTexts, *more: tuple[bytes, bytes]
    ) -> ChunkedResponse:
        """Return a response, JSON unless `more` headers say otherwise.

        Its bytes are given back when the last one is sent.
        """
        self._end_stage("encode")
        self._is_answered = True
        return ChunkedResponse(chunks, texts.warnings.count, more, self._answer)


def _outputs(
    output: Wanted | list[Wanted], lengths: list[int], dimension: int
) -> tuple[list[Wanted], int]:
    """Return the output of each sentence, and the bytes of all results."""
    if isinstance(output, list):
        sizes = (each.size(n, dimension) for each, n in zip(output, lengths, strict=True))
        return output, sum(sizes)
    counts = Counter(lengths).items()
    size = sum(output.size(length, dimension) * count for length, count in counts)
    return [interned(output)] * len(lengths), size
