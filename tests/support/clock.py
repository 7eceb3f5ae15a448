"""A clock that moves only when a test moves it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


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
