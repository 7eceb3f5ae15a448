"""The end of requests that a stopping server does not wait for."""

import asyncio
from types import TracebackType
from typing import Any

from elmo_serve.errors import Unavailable


class StopSignal:
    """Ends the waits of requests: each is answered 503 then and not cut off."""

    def __init__(self) -> None:
        self._waits: set[_Wait] = set()

    def send(self) -> None:
        """End every wait that is under way."""
        for wait in tuple(self._waits):
            wait.end()

    def ends_wait(self) -> "_Wait":
        """Return a context that raises Unavailable out of its block when the signal is sent."""
        return _Wait(self._waits)


class _Wait:
    """One block of one task; cheaper than `asyncio.timeout`, because it arms no timer."""

    def __init__(self, waits: "set[_Wait]") -> None:
        self._waits = waits
        self._task: asyncio.Task[Any] | None = None
        self._is_ended = False

    def end(self) -> None:
        """Cancel the task inside the block."""
        if self._task is not None and not self._is_ended:
            self._is_ended = True
            self._task.cancel()

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._waits.add(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._waits.discard(self)
        task, self._task = self._task, None
        if not self._is_ended or task is None or kind is not asyncio.CancelledError:
            return
        # A cancellation by the owner of the task, besides this one, goes on as such.
        if task.uncancel() == 0:
            raise Unavailable("The server stops before it could answer.", retry_after=1) from None
