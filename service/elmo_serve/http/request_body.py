"""The body of a request: received within limits of time and memory, then parsed."""

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from elmo_serve.errors import (
    DeadlineExceeded,
    FieldError,
    InvalidRequest,
    Overloaded,
    TooLarge,
    pointer,
)
from elmo_serve.http import headers
from elmo_serve.http.request_wait import DisconnectError
from elmo_serve.http.schemas import EmbedRequest
from elmo_serve.output import Dtype, LayerName, Pooling
from elmo_serve.task_schema import Mix, TaskBody
from elmo_serve.validation import validated

if TYPE_CHECKING:  # JSON workers import this module and have no use for a web framework
    from starlette.types import Receive, Scope

SMALL_BODY_BYTES: Final = 1 << 14
"""Bodies up to this size, in bytes, are parsed in the server process: it takes at most a
millisecond. They are not counted by `ReceivingBudget`: 1,024 connections hold 16 MiB of them."""

_RETRY_SECONDS: Final = 1.0


class ReceivingBudget:
    """Bytes of the request bodies that are being received or parsed, over all connections."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def reserve(self, size: int) -> None:
        """Count `size` more bytes.

        Raises:
            TooLarge: the body would not fit if it were the only one.
            Overloaded: it does not fit beside the others.
        """
        if size > self.limit:
            raise TooLarge(
                f"The body has {size} bytes or more and at most {self.limit} are received at once "
                "(ELMO_MAX_RECEIVING_BYTES)."
            )
        if self.used + size > self.limit:
            raise Overloaded(
                f"{self.used} of {self.limit} bytes of request bodies are being received "
                f"(ELMO_MAX_RECEIVING_BYTES); {size} more do not fit.",
                retry_after=_RETRY_SECONDS,
            )
        self.used += size

    def release(self, size: int) -> None:
        """Stop counting `size` bytes."""
        self.used -= size


class Body:
    """The pieces of one request body; a context manager that gives its budget back.

    A large body is counted with its announced length before the first byte is read, and where none
    was announced as the pieces come. The pieces stay apart, on the heap: a body that never ends
    holds no file descriptor.
    """

    def __init__(self, scope: "Scope", budget: ReceivingBudget) -> None:
        self.size = 0
        self._pieces: list[bytes] = []
        self._budget = budget
        self._announced = headers.content_length(scope) or 0
        self._reserved = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._budget.release(self._reserved)
        self._reserved = 0
        self._pieces.clear()

    async def receive(self, receive: "Receive") -> None:
        """Read the body to its end.

        Raises:
            DisconnectError: the client left before the end.
            TooLarge, Overloaded: see `ReceivingBudget.reserve`.
        """
        self._reserve(self._announced)
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise DisconnectError
            piece: bytes = message.get("body", b"")
            self._reserve(self.size + len(piece))
            self._pieces.append(piece)
            self.size += len(piece)
            more = message.get("more_body", False)

    @property
    def content(self) -> bytes:
        """The whole body, copied together."""
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    def move_to(self, memory: NDArray[np.uint8]) -> None:
        """Write the body to the start of `memory` and free its pieces."""
        start = 0
        for piece in self._pieces:
            memory[start : start + len(piece)] = np.frombuffer(piece, np.uint8)
            start += len(piece)
        self._pieces.clear()

    def _reserve(self, size: int) -> None:
        if size > SMALL_BODY_BYTES and size > self._reserved:
            self._budget.reserve(size - self._reserved)
            self._reserved = size


async def read(
    scope: "Scope", receive: "Receive", budget: ReceivingBudget, timeout_seconds: float
) -> bytes:
    """Return the whole body.

    Raises:
        DisconnectError: the client left before its end.
        DeadlineExceeded: it took longer than `timeout_seconds`.
        TooLarge, Overloaded: see `ReceivingBudget.reserve`.
    """
    with Body(scope, budget) as body:
        try:
            async with asyncio.timeout(timeout_seconds):
                await body.receive(receive)
        except TimeoutError:
            raise not_received(timeout_seconds) from None
        return body.content


def not_received(timeout_seconds: float) -> DeadlineExceeded:
    """Return the error for a body that takes too long."""
    return DeadlineExceeded(f"The body had not come within {timeout_seconds:g} s.")


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Largest number of sentences of a request, and of tokens of a sentence."""

    sentences: int
    sentence_tokens: int


@dataclass(frozen=True, slots=True)
class Options:
    """The output a request asks for: a task, a mix, or, where both are None, the layers.

    `model` is the name of the model; None for the first one.
    """

    model: str | None
    layers: LayerName | list[int]
    task: str | None
    mix: Mix | None
    pooling: Pooling
    dtype: Dtype
    normalize: bool


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed request; `sentences` are the JSON texts of its lists of tokens."""

    options: Options
    sentences: list[bytes]
    lengths: list[int]


def parse(body: bytes | memoryview, limits: RequestLimits) -> Parsed:
    """Parse the body of `POST /embed`.

    Raises:
        MalformedBody: it is not JSON.
        InvalidRequest: it breaks the schema; `errors` points to each fault.
        TooLarge: it holds more sentences, or a longer sentence, than `limits` allows.
    """
    request = validated(EmbedRequest, body)
    _check(request.sentences, limits)
    given = request.model_fields_set
    exclusive = [name for name in ("layers", "task", "mix") if name in given]
    if len(exclusive) > 1:
        raise InvalidRequest(
            f"At most one of layers, task and mix is allowed; found {' and '.join(exclusive)}.",
            errors=[FieldError(pointer(name), "excludes the others") for name in exclusive],
        )
    return Parsed(
        Options(
            request.model,
            request.layers,
            request.task,
            request.mix,
            request.pooling,
            request.dtype,
            request.normalize,
        ),
        [orjson.dumps(sentence) for sentence in request.sentences],
        [len(sentence) for sentence in request.sentences],
    )


def parse_task(body: bytes) -> TaskBody:
    """Parse the body of `PUT /tasks/{name}`.

    Raises:
        MalformedBody: it is not JSON.
        InvalidRequest: it breaks the schema; `errors` points to each fault.
    """
    return validated(TaskBody, body)


def _check(sentences: list[list[str]], limits: RequestLimits) -> None:
    if len(sentences) > limits.sentences:
        raise TooLarge(
            f"The request holds {len(sentences)} sentences and at most {limits.sentences} are "
            "allowed (ELMO_MAX_REQUEST_SENTENCES)."
        )
    for index, sentence in enumerate(sentences):
        if len(sentence) > limits.sentence_tokens:
            detail = (
                f"Sentence {index} holds {len(sentence)} tokens and at most "
                f"{limits.sentence_tokens} are allowed (ELMO_MAX_SENTENCE_TOKENS)."
            )
            raise TooLarge(detail, errors=[FieldError(pointer("sentences", index), detail)])
