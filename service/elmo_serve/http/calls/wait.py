"""Waits of requests, which end early on a time limit, on a disconnect and on a stop."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self

from elmo_serve.errors import Unavailable

if TYPE_CHECKING:  # JSON workers import this module and have no use for a web framework
    from starlette.types import Receive

_UNWATCHED_SECONDS: Final = 0.02
"""A wait that takes less is not watched for a disconnect, which saves an asyncio task for each
request. A larger value computes longer for clients that have left."""


class DisconnectError(Exception):
    """The client closed the connection before its request was answered."""


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
            wait.end(_stopping)


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


def _stopping() -> Exception:
    return Unavailable("The server stops before it could answer.", retry_after=1)
