"""From the body of a request with texts to its vectors: the steps that several routes share."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Final, ParamSpec, Self, TypeVar

from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from elmo_serve.errors import DeadlineExceeded, FieldError, InvalidRequest, SentenceFailed
from elmo_serve.http.helpers.text_pool import Side
from elmo_serve.http.media_types import json_text
from elmo_serve.http.media_types.encoder import Chunk
from elmo_serve.http.media_types.response import send_chunks
from elmo_serve.http.request import body as request_body
from elmo_serve.http.request import headers
from elmo_serve.http.request.body import SMALL_BODY_BYTES, Body
from elmo_serve.http.request.wait import RequestWait
from elmo_serve.http.served_models import ServedModel
from elmo_serve.http.state import Server
from elmo_serve.http.text import bodies as text_bodies
from elmo_serve.http.text.bodies import Form, TextBody
from elmo_serve.http.text.splitting import tokenize
from elmo_serve.output import Output
from elmo_serve.scheduling.engine import Embedded

P = ParamSpec("P")
T = TypeVar("T")

VECTORS_FACTOR: Final = 1.0
"""Memory of a small response that is computed from the vectors, against these."""


@dataclass(frozen=True, slots=True)
class Texts:
    """The sentences of a request, as `Engine.embed` takes them; `warnings` counts odd tokens."""

    sentences: list[bytes]
    lengths: list[int]
    warnings: int


class TextCall:
    """One request with texts. A context manager, which frees its memory if it is not answered.

    Raises InvalidRequest for a wrong `X-Request-Timeout`, and UnsupportedMediaType.
    """

    def __init__(self, request: Request) -> None:
        self.server: Server = request.app.state.server
        self._scope: Scope = request.scope
        self._receive: Receive = request.receive
        most = self.server.settings.request_timeout_seconds
        self._seconds = headers.timeout_seconds(self._scope, most)
        self._deadline = time.monotonic() + self._seconds
        self._unless_answered = ExitStack()
        headers.check_json(self._scope)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._unless_answered.close()

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline."""
        return self._deadline - time.monotonic()

    async def body(self, form: Form) -> TextBody:
        """Receive the body and parse it, a large one in another process.

        Raises:
            DeadlineExceeded: the time was over before.
            ServiceError: see `Body.receive`, `text_bodies.parse` and `JsonWorkerPool.parse`.
        """
        server, limits = self.server, self.server.request_limits
        with self._limited(request_body.not_received), Body(self._scope, server.receiving) as body:
            await body.receive(self._receive)
            if body.size <= SMALL_BODY_BYTES:
                return text_bodies.parse(body.content, limits, form)
            return await server.json_workers.parse(text_bodies.parse, body, limits, form)

    async def embed(
        self,
        model: ServedModel,
        body: TextBody,
        output: Callable[[Texts], Output],
        *,
        tokenizer: str | None = None,
        truncate: Side | None = None,
        memory_factor: float = json_text.MEMORY_FACTOR,
    ) -> tuple[Texts, Embedded]:
        """Split the texts of a body into tokens and compute their vectors, or none.

        Args:
            model: the model to compute with.
            body: the parsed body.
            output: gives the vectors to compute, once the tokens are known.
            tokenizer: a name of a tokenizer; None means the one of the model.
            truncate: the side that a text with too many tokens is cut from; None refuses it.
            memory_factor: the bytes of the response for each byte of its vectors.

        Raises:
            InvalidRequest: a text has no tokens, or cannot be split.
            ServiceError: see `text.tokenize` and `Engine.embed`.
            DisconnectError: the client left.
        """
        with self._limited(_not_split) as wait:
            wait.end_on_disconnect(self._receive)
            texts = await _tokenized(self.server, model, body, tokenizer, truncate)
            wait.unlimit()
            try:
                embedded = await self._embedded(model, texts, output(texts), memory_factor)
            except SentenceFailed as error:
                raise error.at(body.pointers[error.index]) from None
            return texts, embedded

    async def _embedded(
        self, model: ServedModel, texts: Texts, wanted: Output, memory_factor: float
    ) -> Embedded:
        dimension = model.info.dimension
        size = sum(
            wanted.size(length, dimension) * count
            for length, count in Counter(texts.lengths).items()
        )
        engine = self.server.engine
        reservation = engine.admission.reserve(int(size * memory_factor), model.name)
        self._unless_answered.callback(reservation.release)
        embedded = await engine.embed(
            texts.sentences,
            texts.lengths,
            wanted,
            self.seconds_left,
            headers.client(self._scope),
            model.name,
        )
        self._scope["state"]["account"].update(
            sentences=len(texts.sentences),
            tokens=sum(texts.lengths),
            queue_seconds=round(embedded.queue_seconds, 4),
            infer_seconds=round(embedded.infer_seconds, 4),
        )
        return embedded

    async def json_of(self, embedded: Embedded, *, as_objects: bool = False) -> list[Chunk]:
        """Return the JSON of the vectors, written by other processes; see `JsonWorkerPool.write`.

        Raises:
            DeadlineExceeded: the time was over before.
        """
        with self._limited(_not_written):
            return await self.server.json_workers.write(embedded.vectors, as_objects=as_objects)

    async def in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Compute a part of the response in a thread.

        Raises:
            DeadlineExceeded: the time was over before. The thread ends its work for nobody.
        """
        with self._limited(_not_written):
            return await asyncio.to_thread(work, *args, **kwargs)

    @contextmanager
    def _limited(self, overdue: Callable[[float], DeadlineExceeded]) -> Iterator[RequestWait]:
        """Wait until the deadline at most; a stop of the server ends the wait as well."""

        def error() -> DeadlineExceeded:
            self.server.metrics.failures.labels("deadline").inc()
            return overdue(self._seconds)

        with self.server.waits.begin() as wait:
            wait.limit(self.seconds_left, error)
            yield wait

    def response(self, pieces: list[Chunk], texts: Texts) -> Response:
        """Return a JSON response in pieces; its memory is released when the last one is sent."""
        self.server.metrics.token_warnings.inc(texts.warnings)
        return _JsonPieces(pieces, texts, self._unless_answered.pop_all())


class _JsonPieces(Response):
    """A JSON response in pieces, which ends with the release of its memory."""

    def __init__(self, pieces: list[Chunk], texts: Texts, memory: ExitStack) -> None:
        # Not Response's own constructor, which would join and copy a body.
        self.background = None
        self.raw_headers = [(b"content-type", b"application/json")]
        if texts.warnings:
            self.raw_headers.append((b"x-warnings", str(texts.warnings).encode()))
        self._pieces = pieces
        self._memory = memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._memory:
            await send_chunks(send, self.raw_headers, self._pieces)


def _not_split(seconds: float) -> DeadlineExceeded:
    return DeadlineExceeded(f"The texts were not split into tokens within {seconds:g} s.")


def _not_written(seconds: float) -> DeadlineExceeded:
    return DeadlineExceeded(f"The vectors were there, but not yet the answer, after {seconds:g} s.")


async def _tokenized(
    server: Server,
    model: ServedModel,
    body: TextBody,
    tokenizer: str | None,
    truncate: Side | None,
) -> Texts:
    """Split the texts of a body; its lists of tokens stay as they are.

    Raises InvalidRequest for a text or a list without tokens: it has no vector.
    """
    places = [place for place, length in enumerate(body.lengths) if length is None]
    found = await tokenize(
        server,
        [body.sentences[place].decode() for place in places],
        tokenizer,
        model=model.info,
        pointer_of=lambda index: body.pointers[places[index]],
        truncate=truncate,
    )
    sentences, lengths = list(body.sentences), [length or 0 for length in body.lengths]
    for place, sentence, length in zip(places, found.sentences, found.lengths, strict=True):
        sentences[place], lengths[place] = sentence, length
    for pointer, length in zip(body.pointers, lengths, strict=True):
        if not length:
            detail = "holds no token, and the mean of no tokens is no vector. Leave it out."
            raise InvalidRequest.of(FieldError(pointer, detail))
    return Texts(sentences, lengths, found.warnings.count)
