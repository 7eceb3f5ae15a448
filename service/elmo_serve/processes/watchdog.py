"""Timeouts of child processes: learned from their latency, extended after a suspension."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

_FACTOR = 10.0
"""A task times out after so many times its expected seconds.

A larger value finds a hung process later, a smaller one kills processes on a busy machine.
`benchmarks/faults.py` prints after how long a hung worker is found.
"""

_RECENT_TASKS = 32
"""Tasks that the estimate is made of; one that stood still with its machine raises it so long."""

_LATE = 0.1
"""A timer that is later than this part of its time was itself suspended with its process."""


class Timer(Protocol):
    """A call that is to come."""

    def cancel(self) -> None:
        """Prevent the call."""


class Clock(Protocol):
    """A clock that tests can replace."""

    def now(self) -> float:
        """Return the seconds since some fixed moment."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call a function once, so many seconds from now."""


class EventLoopClock:
    """The real clock. Calls are made by the event loop that runs."""

    def now(self) -> float:
        """Return the monotonic time; uvloop's own has steps of a millisecond."""
        return time.monotonic()

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Schedule a call in a context of its own: its log lines belong to no request."""
        return asyncio.get_running_loop().call_later(seconds, call, context=contextvars.Context())


EVENT_LOOP_CLOCK = EventLoopClock()


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds without a message after which a child process counts as hung.

    `load` holds while it starts, `first_batch` for a task before any latency is known, and `batch`
    is the shortest timeout of a task afterwards.
    """

    load: float = 600.0
    first_batch: float = 60.0
    batch: float = 5.0


class LatencyEstimate:
    """An upper bound of the seconds that a task takes, from the slowest of the recent ones.

    Sizes are in any unit, tokens or bytes. A task below `minimum_size` is bound by latency and
    counts as that large.
    """

    def __init__(self, timeouts: Timeouts, minimum_size: int) -> None:
        self._timeouts = timeouts
        self._minimum_size = minimum_size
        self._calibrated = 0.0
        self._seconds_per_step = 0.0
        self._recent: deque[float] = deque(maxlen=_RECENT_TASKS)  # seconds a unit

    def calibrate(self, seconds_per_unit: float, seconds_per_step: float = 0.0) -> None:
        """Take the pace of a warm-up as a lower bound of the estimate."""
        self._calibrated, self._seconds_per_step = seconds_per_unit, seconds_per_step

    def learn(self, size: int, seconds: float) -> None:
        """Count a task that is done."""
        self._recent.append(seconds / max(size, self._minimum_size))

    def timeout(self, size: int, steps: int = 0) -> float:
        """Return the seconds after which a task of this size and so many steps counts as hung."""
        if not self._recent and not self._calibrated:
            return self._timeouts.first_batch
        slowest = max(self._calibrated, *self._recent, 0.0)
        expected = max(slowest * max(size, self._minimum_size), self._seconds_per_step * steps)
        return max(self._timeouts.batch, _FACTOR * expected)


class Watchdog:
    """Calls `on_timeout` with the seconds waited, unless the wait is ended or renewed in time.

    When this process or its machine was suspended, messages of the child lie unread and the child
    may have been suspended as well. Then the timer fires late, and the child gets its time again.
    """

    def __init__(self, on_timeout: Callable[[float], None], clock: Clock) -> None:
        self._on_timeout = on_timeout
        self._clock = clock
        self._timer: Timer | None = None

    def wait(self, seconds: float) -> None:
        """Allow so many seconds from now on."""
        self.cancel()
        due = self._clock.now() + seconds
        self._timer = self._clock.call_later(seconds, lambda: self._fire(due, seconds))

    def cancel(self) -> None:
        """Wait for nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self, due: float, seconds: float) -> None:
        self._timer = None
        if self._clock.now() - due > _LATE * seconds:
            self.wait(seconds)
        else:
            self._on_timeout(seconds)
