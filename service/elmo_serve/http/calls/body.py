"""A request is received, within limits of memory and time, and waited for until it is answered."""

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from elmo_serve.errors import Overloaded, TooLarge, Unavailable
from elmo_serve.http import headers
from elmo_serve.scheduling.quotas import Budget, Hold

if TYPE_CHECKING:  # JSON workers import this module and have no use for a web framework
    from starlette.types import Receive, Scope

SMALL_BODY_BYTES: Final = 1 << 15
"""Bodies up to this size, in bytes, are parsed in the server process, usual ones within 0.6 ms of
the event loop; another process takes 0.3 ms of it, and 1 to 3 ms in all. A larger value blocks the
event loop longer: a body made for it, of 64 KiB, for 4 ms. The budget of all bodies does not count
them: 1,024 connections hold 32 MiB of them."""

NOT_RECEIVED: Final = "The body had not come within {:g} s."
_NOT_ANSWERED: Final = "The server stops before it could answer."

_RETRY_SECONDS: Final = 1.0

_UNWATCHED_SECONDS: Final = 0.02
"""A wait that takes less is not watched for a disconnect, which saves an asyncio task for each
request. A larger value computes longer for clients that have left."""


class DisconnectError(Exception):
    """The client closed the connection before its request was answered."""


class Body:
    """The pieces of one request body; a context manager that gives its budget back.

    A large body is counted with its announced length before the first byte is read, and where none
    was announced as the pieces come. The pieces stay apart, on the heap: a body that never ends
    holds no file descriptor. `most_bytes` is a limit of this body alone, next to the one of all
    bodies (ELMO_MAX_BODY_BYTES).
    """

    def __init__(self, scope: "Scope", budget: Budget, most_bytes: float = math.inf) -> None:
        self.size = 0
        self._most_bytes = most_bytes
        self._pieces: list[bytes] = []
        self._budget = budget
        self._holds: list[Hold] = []
        self._announced = headers.content_length(scope) or 0
        self._reserved = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for hold in self._holds:
            hold.release()
        self._pieces.clear()

    async def receive(self, receive: "Receive") -> None:
        """Read the body to its end.

        Raises:
            DisconnectError: the client left before the end.
            TooLarge: the body has more than `most_bytes`, or more than all bodies may have.
            Overloaded: it does not fit beside the other bodies that are being received.
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
        if size > self._most_bytes:
            raise TooLarge(
                f"The body has {size} bytes or more and at most {self._most_bytes} are allowed "
                "here."
            )
        if size > SMALL_BODY_BYTES and size > self._reserved:
            self._check_room(size)
            self._holds.append(self._budget.hold(size - self._reserved))
            self._reserved = size

    def _check_room(self, size: int) -> None:
        budget = self._budget
        assert budget.limit is not None, "the budget of all bodies has a limit"
        if size > budget.limit:
            raise TooLarge(
                f"The body has {size} bytes or more and at most {budget.limit} are received at "
                "once (ELMO_MAX_RECEIVING_BYTES)."
            )
        if budget.excess(size - self._reserved):
            raise Overloaded(
                f"{budget.used} of {budget.limit} bytes of request bodies are being received "
                f"(ELMO_MAX_RECEIVING_BYTES); {size - self._reserved} more do not fit.",
                retry_after=_RETRY_SECONDS,
            )


class RequestWaits:
    """The waits of one server that are under way."""

    def __init__(self) -> None:
        self._waits: set[RequestWait] = set()

    def begin(self) -> "RequestWait":
        """Return a context that can be ended until its block is left."""
        return RequestWait(self._waits)

    def end(self) -> None:
        """End every wait: the server stops, and its requests are answered 503."""
        for wait in tuple(self._waits):
            wait.end(partial(Unavailable, _NOT_ANSWERED, retry_after=1))


class RequestWait:
    """A block of one task that can be ended from outside, with an error in place of its result.

    One object for the three reasons: an `asyncio.timeout` for each of them takes 7 us, a timer here
    takes 2 us (`benchmarks.echo`).
    """

    def __init__(self, waits: "set[RequestWait]") -> None:
        self._waits = waits
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None
        self._cancellations = 0  # of the task by others, before the block
        self._error: Callable[[], Exception] | None = None
        self._limit: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None

    def end(self, error: Callable[[], Exception]) -> None:
        """Raise `error()` out of the block, unless it has ended. Not to be called by its task."""
        if self._task is not None and self._error is None:
            self._error = error
            self._task.cancel()

    def limit(self, seconds: float, error: Callable[[], Exception]) -> None:
        """End the wait after some seconds, in place of an earlier limit."""
        self.clear_limit()
        self._limit = self._loop.call_later(seconds, self.end, error)

    def clear_limit(self) -> None:
        """Remove the limit of time."""
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def end_on_disconnect(self, receive: "Receive") -> None:
        """End the wait with DisconnectError when the client leaves.

        The body must have been read, because `receive` is used up to `http.disconnect`.
        """
        self._watch = self._loop.call_later(_UNWATCHED_SECONDS, self._start_watcher, receive)

    def _start_watcher(self, receive: "Receive") -> None:
        self._watcher = self._loop.create_task(self._disconnected(receive))

    async def _disconnected(self, receive: "Receive") -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end(DisconnectError)

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        assert self._task is not None, "a request is answered by a task"
        self._cancellations = self._task.cancelling()
        self._waits.add(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        task, self._task = self._task, None
        self._waits.discard(self)
        for pending in (self._limit, self._watch, self._watcher):
            if pending is not None:
                pending.cancel()
        if self._error is None or task is None:
            return
        # A cancellation by the owner of the task, in addition to this one, is passed on.
        if task.uncancel() <= self._cancellations and kind is asyncio.CancelledError:
            raise self._error() from None
