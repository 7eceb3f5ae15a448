"""From the body of a request to its response: the steps that every route that embeds shares."""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, Self, TypeVar

from fastapi import Request
from numpy.typing import NDArray
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from elmo_serve.errors import SentenceFailed
from elmo_serve.http import headers
from elmo_serve.http.body import (
    SMALL_BODY_BYTES,
    Body,
    Parsed,
    RequestT,
    TokenizedTexts,
    parse,
    parse_elsewhere,
)
from elmo_serve.http.deadline import Deadline, Deadlines
from elmo_serve.http.media_types import json_text
from elmo_serve.http.media_types.encoder import Chunk, Embeddings
from elmo_serve.http.models import ServedModel, ServedModels
from elmo_serve.http.texts import Tokenize, tokenize
from elmo_serve.http.threads import DaemonThreads
from elmo_serve.processes.helpers import HelperPool
from elmo_serve.scheduling.budgets import Budget, Hold
from elmo_serve.scheduling.engine import Embedded, Engine
from elmo_serve.selection import Output, interned
from elmo_serve.settings import Settings
from elmo_serve.workers.language_results import Wanted

P = ParamSpec("P")
T = TypeVar("T")

JSON_HEADERS: Final = ((b"content-type", b"application/json"),)

_ONE_VECTOR: Final = Output()

_PIECE_BYTES = 1 << 20
"""Bytes that are sent at once: small chunks are joined, because a call of `send` costs more than
the copy, and large ones are cut, so that other requests run between two writes."""

_NOT_PARSED: Final = "The body was not parsed within {:g} s."
_NOT_SPLIT: Final = "The texts were not split into tokens within {:g} s."
_NOT_COMPUTED: Final = "The vectors were not computed within {:g} s."
_NOT_WRITTEN: Final = "The vectors were computed within {:g} s, but the response was not written."


@dataclass(frozen=True, slots=True)
class CallParts:
    """The parts of a server that its calls use; `encoding` and `searching` are their threads."""

    settings: Settings
    engine: Engine
    models: ServedModels
    helpers: HelperPool
    bodies: Budget
    deadlines: Deadlines
    encoding: DaemonThreads
    searching: DaemonThreads


class EmbeddingCall:
    """One request with sentences or texts, up to its response.

    An async context manager, whose block ends early when the time of the request is over
    (DeadlineExceeded), when its client leaves (DisconnectError) and when the server stops
    (Unavailable). It frees the memory of the body, and of a call that is not answered.

    Raises InvalidRequest for a wrong `X-Request-Timeout`, and UnsupportedMediaType.
    """

    def __init__(self, request: Request) -> None:
        parts: CallParts = request.app.state.call_parts
        self._parts = parts
        self.models = parts.models
        self.scope: Scope = request.scope
        self._receive: Receive = request.receive
        most = parts.settings.request_timeout_seconds
        self._deadline = Deadline(parts.deadlines, headers.timeout_seconds(self.scope, most))
        self._body = Body(self.scope, parts.bodies, parts.settings.max_body_bytes)
        self._client = headers.client(self.scope)
        self._answer = parts.engine.answers.hold(self._client)
        self._is_answered = False
        self._work: Future[Any] | None = None  # the last one in a thread
        headers.check_media_type(self.scope)

    async def __aenter__(self) -> Self:
        await self._deadline.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        try:
            await self._deadline.__aexit__(*error)
        finally:
            self._body.release()
            if not self._is_answered:
                self._release_answer()
            self.scope["state"]["log_fields"]["request_bytes"] = self._body.size

    async def body(self, model: type[RequestT]) -> Parsed[RequestT]:
        """Receive the body and parse it as `model`, a large one in another process.

        Where sentences are computed of the body and the smallest request would not be answered in
        time, it is refused unread.

        Raises:
            ServiceError: see `Body.receive` and `parse`.
            DisconnectError: the client left.
        """
        body, limits = self._body, self.models.request_limits
        headers.refuse_fields_in_query(self.scope, model.model_fields)
        if model.needs_vectors:
            self._parts.engine.check_unread(self._deadline.seconds_left)
        await body.receive(self._receive)
        self._deadline.overdue = _NOT_PARSED
        self._deadline.end_on_disconnect(self._receive)
        if body.size <= SMALL_BODY_BYTES:
            return parse(model, body.take(), limits)
        return await parse_elsewhere(self._parts.helpers, self._client, model, body, limits)

    async def tokenize(
        self,
        model: ServedModel,
        body: Parsed[RequestT],
        tokenizer: str | None = None,
    ) -> TokenizedTexts:
        """Return the tokens of a body, split from its texts if it has some.

        Raises as `texts.tokenize`.

        `tokenizer` is a name of `elmo_model.text.tokenizers`, by default that of the model.
        """
        if not body.texts:
            return body.tokens
        self._deadline.overdue = _NOT_SPLIT
        parts = self._parts
        task = Tokenize.of(model.info, tokenizer, self.models.request_limits.sentence_tokens)
        return await tokenize(
            parts.helpers, self._client, task, body, parts.settings.max_queue_tokens
        )

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
            embedded = await self._parts.engine.embed(
                texts.sentences,
                texts.lengths,
                outputs,
                self._deadline.seconds_left,
                self._client,
                model.name,
            )
        except SentenceFailed as error:
            raise error.at(body.member.pointer(error.index)) from None
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

    async def json_of(self, embedded: Embedded, *, as_objects: bool = False) -> list[Chunk]:
        """Return the JSON of the vectors; see `json_text.write`."""
        return await json_text.write(
            self._parts.helpers, self._client, embedded.vectors, as_objects=as_objects
        )

    async def in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Compute a part of the response in a thread.

        When the time is over, the thread keeps running and its result is discarded; if it has not
        begun by then, it does nothing. The bytes of the response count until it ends.
        """
        return await self._in(self._parts.encoding, work, *args, **kwargs)

    async def search(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Read an index of uses in a thread: its file system may hang, and encoding must not."""
        return await self._in(self._parts.searching, work, *args, **kwargs)

    async def _in(
        self, threads: DaemonThreads, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self._deadline.overdue = _NOT_WRITTEN
        self._work = threads.submit(work, *args, **kwargs)
        return await asyncio.wrap_future(self._work)

    def _release_answer(self) -> None:
        """Give the bytes of the response back; those that a thread still writes, when it ends."""
        if self._work is None or self._work.done():
            self._answer.release()
            return
        loop = asyncio.get_running_loop()

        def release(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._answer.release)

        self._work.add_done_callback(release)

    def response(self, chunks: list[Chunk], *more: tuple[bytes, bytes]) -> "ChunkedResponse":
        """Return a response, JSON unless `more` headers say otherwise.

        Its bytes are given back when the last one is sent.
        """
        self._is_answered = True
        return ChunkedResponse(chunks, more, self._answer)


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


def described(
    model: ServedModel,
    body: Parsed[Any],
    texts: TokenizedTexts,
    output: Output = _ONE_VECTOR,
    *,
    arrays: Sequence[NDArray[Any]] = (),
) -> Embeddings:
    """Return everything that a response says of its sentences, and of their `output`."""
    info, tokens = model.info, sum(texts.lengths)
    is_text = body.member.name == "text"
    return Embeddings(
        model=model.name,
        revision=info.revision,
        precision=info.precision,
        dimension=output.width(info.dimension),
        layers=output.layers,
        tokens=tokens,
        arrays=arrays,
        sentences=texts.sentences,
        shape=output.shape(-1, info.dimension),
        dtype=output.dtype,
        offsets=texts.offsets,
        tokenizer=body.request.tokenizer or info.tokenizer if is_text else None,
    )


class ChunkedResponse(Response):
    """A response in chunks; its bytes are given back when the last one is sent."""

    def __init__(
        self, chunks: list[Chunk], headers: Sequence[tuple[bytes, bytes]], hold: Hold
    ) -> None:
        # Not Response's own constructor, which would join and copy a body.
        self.background = None
        self.raw_headers = list(headers or JSON_HEADERS)
        self._chunks = chunks
        self._hold = hold

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send_chunks(send, self.raw_headers, self._chunks)
        finally:
            self._hold.release()


async def send_chunks(
    send: Send, headers: Sequence[tuple[bytes, bytes]], chunks: list[Chunk]
) -> None:
    """Send a response with status 200, these headers, a Content-Length and these chunks.

    `chunks` is emptied on the way, so that the memory of each chunk is free once it is sent.
    """
    size = sum(map(len, chunks))
    length = (b"content-length", str(size).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [*headers, length]})
    remaining = deque(chunks)
    chunks.clear()
    piece = bytearray()
    while remaining:
        chunk = memoryview(remaining.popleft())
        while len(piece) + len(chunk) > _PIECE_BYTES:
            room = _PIECE_BYTES - len(piece)
            body = b"".join((piece, chunk[:room]))
            piece, chunk = bytearray(), chunk[room:]
            await send({"type": "http.response.body", "body": body, "more_body": True})
            await asyncio.sleep(0)  # a fast client must not keep the event loop to itself
        piece += chunk
    await send({"type": "http.response.body", "body": bytes(piece)})
