"""How long another process may be silent, and a timer that knows when the silence is our own."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from dataclasses import dataclass

_SHORT_FACTOR, _LONG_FACTOR = 20.0, 4.0  # what is long is seldom late by as many times its time
_LONG_SECONDS = 10.0
_LEARNING = 0.1
_STEEPEST = 2.0
_LATE = 0.1  # of its time: a timer that is later than this has stood still with its process


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds of silence after which a process counts as hung.

    For a batch, or whatever else it is given, it is a multiple of what those before it took, and
    at least ``batch``; ``first_batch`` before there was one; ``load`` while it starts.
    """

    load: float = 600.0
    first_batch: float = 60.0
    batch: float = 5.0


class LatencyEstimate:
    """Learns the pace of the last tasks, up twofold at most for each, and the slowest of them.

    Sizes are in any unit; below ``least_size`` a task is bound by latency and counts as so large.
    The two are apart, or one small task that stood still with its machine would make a large one
    wait for minutes.
    """

    def __init__(self, timeouts: Timeouts, least_size: int) -> None:
        self._patience = timeouts
        self._least_size = least_size
        self._seconds_per_unit: float | None = None
        self._slowest = 0.0

    def start_from(self, seconds_per_unit: float) -> None:
        """Take this for the pace unless there is a better one."""
        if seconds_per_unit and self._seconds_per_unit is None:
            self._seconds_per_unit = seconds_per_unit

    def learn(self, size: int, seconds: float) -> None:
        """Count a task that was done."""
        self._slowest = _followed(self._slowest, seconds)
        found = seconds / max(size, self._least_size)
        known = self._seconds_per_unit
        self._seconds_per_unit = (
            found if known is None else _followed(known, min(found, _STEEPEST * known))
        )

    def bound(self, size: int) -> float:
        """Return the seconds after which a task of this size counts as hung."""
        if self._seconds_per_unit is None:
            return self._patience.first_batch
        usual = self._seconds_per_unit * max(size, self._least_size)
        short = min(_SHORT_FACTOR * usual, _LONG_SECONDS)
        return max(self._patience.batch, short, _LONG_FACTOR * max(usual, self._slowest))


def _followed(known: float, found: float) -> float:
    """Go up at once and down slowly."""
    return max(found, known + _LEARNING * (found - known))


class Watchdog:
    """Calls ``silent`` with the seconds waited, unless it is told in time to expect something else.

    When this process was stopped itself, or the machine under it, what the other side has said lies
    unread, and it may have been stopped as long: it gets its time again.
    """

    def __init__(self, silent: Callable[[float], None]) -> None:
        self._silent = silent
        self._timer: asyncio.TimerHandle | None = None

    def expect(self, seconds: float | None) -> None:
        """Wait from now on for so long; None: for nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            due = time.monotonic() + seconds
            loop = asyncio.get_running_loop()
            # In a context of its own: what it logs is of no request that happened to set it.
            context = contextvars.Context()
            self._timer = loop.call_later(seconds, self._is_over, due, seconds, context=context)

    def _is_over(self, due: float, seconds: float) -> None:
        if time.monotonic() - due > _LATE * seconds:
            self.expect(seconds)
        else:
            self._timer = None
            self._silent(seconds)
