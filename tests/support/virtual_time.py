"""Runs asynchronous tests in virtual time: timed tests take no time and are exact."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

P = ParamSpec("P")


class LoopClock:
    """The clock of the running event loop; implements `elmo_serve.processes.clock.Clock`."""

    def now(self) -> float:
        """Return the time of the loop."""
        return asyncio.get_running_loop().time()

    def call_later(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Call a function after so many seconds."""
        return asyncio.get_running_loop().call_later(seconds, call)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs callbacks as asyncio does, and skips the time in which nothing happens.

    Only for code that waits for nothing outside of the loop: no sockets, threads or processes.
    """

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self.now


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("the loop waits for something that never happens")
        self._loop.now += timeout
        return super().select(0)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an asynchronous test in a `VirtualLoop` of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
