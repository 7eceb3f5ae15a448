"""Time that a test moves: a clock, an event loop in virtual time, a thread that is late."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any, ParamSpec


@dataclass(slots=True, eq=False)
class FakeTimer:
    """A call that is due at `time`."""

    time: float
    call: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Prevent the call."""
        self.is_cancelled = True


class FakeClock:
    """Implements `processes.clock.Clock` and records every delay that is asked for."""

    def __init__(self) -> None:
        self.time = 0.0
        self.delays: list[float] = []
        self._timers: list[FakeTimer] = []

    def now(self) -> float:
        """Return the seconds that the clock was moved."""
        return self.time

    def call_later(self, seconds: float, call: Callable[[], None]) -> FakeTimer:
        """Schedule a call for `advance` to make."""
        self.delays.append(seconds)
        self._timers.append(FakeTimer(self.time + seconds, call))
        return self._timers[-1]

    def advance(self, seconds: float) -> None:
        """Move the clock and make every call that is due, at the moment when it is due."""
        end = self.time + seconds
        while due := [t for t in self._timers if not t.is_cancelled and t.time <= end]:
            timer = min(due, key=lambda timer: timer.time)
            self._timers.remove(timer)
            self.time = max(self.time, timer.time)
            timer.call()
        self.time = end

    def suspend(self, seconds: float) -> None:
        """Move the clock as if the process had been stopped: calls that are due come late."""
        self.time += seconds
        self.advance(0.0)


class SteppedClock:
    """A clock that moves by a quarter of a second whenever it is read, in one thread."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        self.time += 0.25
        return self.time


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


class LateExecutor(Executor):
    """Runs a call when somebody waits for its result; `most` were not run at some time."""

    def __init__(self) -> None:
        self._left = self.most = 0

    def submit(self, function: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        executor = self

        class Call(Future[Any]):
            def exception(self, timeout: float | None = None) -> BaseException | None:
                if not self.done():
                    executor._left -= 1
                    self.set_result(function(*args, **options))
                return super().exception(timeout)

            def result(self, timeout: float | None = None) -> Any:
                self.exception()
                return super().result(timeout)

        self._left += 1
        self.most = max(self.most, self._left)
        return Call()
