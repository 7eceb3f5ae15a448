"""The body of a request, received within the budget of its client, and the end of its time."""

import asyncio
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import numpy as np
from numpy.typing import NDArray

from elmo_serve.errors import DeadlineExceeded, RequestTimeout, TooLarge, Unavailable
from elmo_serve.http import headers
from elmo_serve.scheduling.budgets import Budget

if TYPE_CHECKING:
    from prometheus_client import Counter
    from starlette.types import Receive, Scope

SMALL_BODY_BYTES: Final = 1 << 15
"""Bodies up to this size, in bytes, are parsed in the server process, usual ones within 0.6 ms of
the event loop; another process takes 0.3 ms of it, and 1 to 3 ms in all. A larger value blocks the
event loop longer: a body made for it, of 64 KiB, for 4 ms. The budget of all bodies does not count
them: 1,024 connections hold 32 MiB of them."""

NOT_RECEIVED: Final = "The body had not come within {:g} s."
_NOT_ANSWERED: Final = "The server stops before it could answer."

_UNWATCHED_SECONDS: Final = 0.02
"""A request that takes less is not watched for a disconnect, which saves it an asyncio task. A
larger value computes longer for clients that have left."""


class Body:
    """The pieces of one request body, of at most `max_bytes`.

    A body over `SMALL_BODY_BYTES` counts with the bytes that have come, until `release`. The pieces
    stay apart, on the heap: a body that never ends holds no file descriptor.
    """

    def __init__(self, scope: "Scope", budget: Budget, max_bytes: int) -> None:
        self.size = 0
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._hold = budget.hold(headers.client(scope))
        self._announced = headers.content_length(scope) or 0

    def release(self) -> None:
        """Give the budget back, and free the pieces."""
        self._hold.release()
        self._pieces.clear()

    async def receive(self, receive: "Receive") -> None:
        """Read the body to its end.

        Raises:
            DisconnectError: the client left before the end.
            TooLarge: the body has more than `max_bytes`.
            Overloaded, ClientOverShare: it does not fit beside the other bodies.
        """
        self._check_size(self._announced)
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise DisconnectError
            piece: bytes = message.get("body", b"")
            self.size += len(piece)
            self._check_size(self.size)
            if self.size > SMALL_BODY_BYTES:
                self._hold.add(self.size - self._hold.left)
            self._pieces.append(piece)
            more = message.get("more_body", False)

    def take(self) -> bytes:
        """Return the whole body, copied together, and free its pieces."""
        whole = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        return whole

    def move_to(self, memory: NDArray[np.uint8]) -> None:
        """Write the body to the start of `memory` and free its pieces."""
        start = 0
        for piece in self._pieces:
            memory[start : start + len(piece)] = np.frombuffer(piece, np.uint8)
            start += len(piece)
        self._pieces.clear()

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            raise TooLarge(
                f"The body has {size} bytes or more and at most {self._max_bytes} are allowed "
                f"(ELMO_MAX_BODY_BYTES)."
            )


class DisconnectError(Exception):
    """The client closed the connection before its request was answered."""


class Deadlines:
    """The deadlines of all requests of a server that are not answered yet.

    `overdue` counts the requests whose time was over.
    """

    def __init__(self, overdue: "Counter") -> None:
        self.overdue = overdue
        self.running: set[Deadline] = set()

    def begin(self, seconds: float) -> "Deadline":
        """Return the deadline of a request that may take so many seconds from now on."""
        return Deadline(self, seconds)

    def end(self) -> None:
        """End every request with 503: the server stops."""
        for deadline in tuple(self.running):
            deadline.end(Unavailable(_NOT_ANSWERED, retry_after=1))


class Deadline:
    """An async context manager, whose block ends early with an error.

    DeadlineExceeded when its time is over, or RequestTimeout where the body has not come by then;
    DisconnectError when the client leaves, Unavailable when the server stops. `overdue` is the text
    of DeadlineExceeded with a place for the seconds; the block sets it to what it does at the time.
    """

    def __init__(self, deadlines: Deadlines, seconds: float) -> None:
        self.overdue = NOT_RECEIVED
        self._all = deadlines
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._scope = asyncio.timeout(seconds)
        self._error: Exception | None = None
        self._watch: asyncio.TimerHandle | asyncio.Task[None] | None = None

    @property
    def seconds_left(self) -> float:
        """Seconds until the time is over."""
        return self._end - time.monotonic()

    def end(self, error: Exception) -> None:
        """Raise an error out of the block, unless it ends already."""
        if self._error is None and not self._scope.expired():
            self._error = error
            self._scope.reschedule(0)

    def end_on_disconnect(self, receive: "Receive") -> None:
        """End the block with DisconnectError when the client leaves.

        The body must have been read, because `receive` is used up to `http.disconnect`.
        """
        loop = asyncio.get_running_loop()
        self._watch = loop.call_later(_UNWATCHED_SECONDS, self._start_watch, receive)

    def _start_watch(self, receive: "Receive") -> None:
        self._watch = asyncio.get_running_loop().create_task(self._until_disconnect(receive))

    async def _until_disconnect(self, receive: "Receive") -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end(DisconnectError())

    async def __aenter__(self) -> Self:
        await self._scope.__aenter__()
        self._all.running.add(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._all.running.discard(self)
        if self._watch is not None:
            self._watch.cancel()
        try:
            await self._scope.__aexit__(kind, error, trace)
        except TimeoutError:
            if self._error is not None:
                raise self._error from None
            if (
                self.overdue == NOT_RECEIVED
            ):  # by the client's fault, so it is counted as no failure
                detail = NOT_RECEIVED.format(self._seconds)
                raise RequestTimeout(detail, headers={"Connection": "close"}) from None
            error = DeadlineExceeded(self.overdue.format(self._seconds))
        if isinstance(error, DeadlineExceeded):
            self._all.overdue.inc()
            raise error from None
