"""The deadline of a request: its block ends when the time is over or its client leaves."""

import asyncio
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from elmo_serve.errors import DeadlineExceeded, RequestTimeout, Unavailable

if TYPE_CHECKING:
    from prometheus_client import Counter
    from starlette.types import Receive

_NOT_RECEIVED: Final = "The body had not come within {:g} s."
_NOT_ANSWERED: Final = "The server stops before it could answer."

_UNWATCHED_SECONDS: Final = 0.02
"""A request that takes less is not watched for a disconnect, which saves it an asyncio task. A
larger value computes longer for clients that have left."""


class DisconnectError(Exception):
    """The client closed the connection before its request was answered."""


class Deadlines:
    """The deadlines of all requests of a server that are not answered yet.

    `overdue` counts the requests whose time was over.
    """

    def __init__(self, overdue: "Counter") -> None:
        self.overdue = overdue
        self.running: set[Deadline] = set()

    def end(self) -> None:
        """End every request with 503: the server stops."""
        for deadline in tuple(self.running):
            deadline.end(Unavailable(_NOT_ANSWERED, retry_after=1))


class Deadline:
    """An async context manager, whose block ends early with an error.

    DeadlineExceeded `seconds` after this object was made, or RequestTimeout where the body has not
    come by then; DisconnectError when the client leaves, Unavailable when the server stops.
    `overdue` is the text of DeadlineExceeded with a place for the seconds: the caller sets it to
    its current stage.
    """

    def __init__(self, deadlines: Deadlines, seconds: float) -> None:
        self.overdue = _NOT_RECEIVED
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
            if self.overdue == _NOT_RECEIVED:
                # By the client's fault, so it is counted as no failure.
                detail = _NOT_RECEIVED.format(self._seconds)
                raise RequestTimeout(detail, headers={"Connection": "close"}) from None
            error = DeadlineExceeded(self.overdue.format(self._seconds))
        if isinstance(error, DeadlineExceeded):
            self._all.overdue.inc()
            raise error from None
