"""The thread that reads and writes the task folder: it may hang, and the server does not."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from elmo_serve.errors import Unavailable

CALL_SECONDS: Final = 10.0
"""Seconds after which a request does not wait for the folder any longer. A larger value leaves more
requests open while a network file system hangs; a smaller one refuses more on a slow disk."""

REFRESH_SECONDS: Final = 0.5
"""Seconds between two refreshes of the cache; a change by another server is seen within 1 s."""

P = ParamSpec("P")
T = TypeVar("T")

_Call = tuple[Future[Any], Callable[[], Any]]


class TaskThread:
    """Runs calls that read or write the task folder, one after another.

    A daemon thread: while the folder hangs, calls fail after `seconds`, and the process can end.
    """

    def __init__(self, seconds: float = CALL_SECONDS) -> None:
        self._seconds = seconds
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._watch: asyncio.Task[None] | None = None
        threading.Thread(target=self._work, name="elmo-tasks", daemon=True).start()

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a call. A call that has not begun in time is not made.

        Raises Unavailable where the folder does not answer in time, and what the call raises.
        """
        future: Future[T] = Future()
        self._calls.put((future, partial(call, *args, **kwargs)))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._seconds)
        except TimeoutError:
            raise Unavailable("The task folder does not answer", retry_after=10) from None

    def watch(self, refresh: Callable[[], object]) -> None:
        """Call `refresh` every `REFRESH_SECONDS` until `close`."""
        self._watch = asyncio.create_task(self._refresh(refresh))

    def close(self) -> None:
        """End the watch, and the thread once the folder answers."""
        if self._watch is not None:
            self._watch.cancel()
        self._calls.put(None)

    async def _refresh(self, refresh: Callable[[], object]) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            with suppress(Unavailable):
                await self.run(refresh)

    def _work(self) -> None:
        while (asked := self._calls.get()) is not None:
            future, call = asked
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
