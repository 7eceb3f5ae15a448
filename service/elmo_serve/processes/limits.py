"""The limits of a child process: how long it may be silent, and how large a task may be."""

from __future__ import annotations

from collections.abc import Callable

from elmo_serve.processes.clock import Clock, Timer

_TICK_SECONDS = 1.0
"""Seconds between two ticks. A smaller value takes more of the event loop, and measures a silence
no better: children send a message a second."""

_LATE_SECONDS = 0.1
"""A tick that is later than this shows that the server's own process stood still, or is starved.
A larger value kills children of a machine that stands still, a smaller one finds a hung child of a
busy machine later."""

_PROBATION_TASKS = 32
"""Large tasks without a failure before a larger one is tried.

A larger value grows back later, a smaller one runs out of memory more often.
"""

_GROWTH = 8
"""The size limit grows by one part in so many at a time."""


class Watchdog:
    """Calls `on_silence` with the seconds of a silence, once that is longer than allowed.

    Silence is counted in ticks of one second. A late tick counts as one, however late it is, and
    never as the last one: the server's process, or its whole machine, stood still, and a message of
    the child may lie unread.
    """

    def __init__(self, on_silence: Callable[[float], None], clock: Clock) -> None:
        self._on_silence = on_silence
        self._clock = clock
        self._timer: Timer | None = None
        self._due = 0.0  # time of the next tick
        self._allowed = 0.0
        self._silence = 0.0  # seconds of the ticks since the last message

    def allow(self, seconds: float) -> None:
        """Allow so many seconds of silence from now on."""
        self.cancel()
        self._allowed, self._silence = seconds, 0.0
        self._wait()

    def cancel(self) -> None:
        """Allow any silence."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self._due = self._clock.now() + _TICK_SECONDS
        self._timer = self._clock.call_later(_TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._silence += _TICK_SECONDS
        is_late = self._clock.now() - self._due > _LATE_SECONDS
        if self._silence < self._allowed or is_late:
            self._wait()
        else:
            self._on_silence(self._silence)


class SizeLimit:
    """The size that a task may have, at most `largest`; smaller after one ran out of memory."""

    def __init__(self, largest: int) -> None:
        self.size = largest
        self._largest = largest
        self._large_tasks = 0  # in a row, without a failure

    def limit(self, size: int) -> None:
        """Allow at most so much for now: half of a task that ran out of memory, or a warm-up's.

        Not half of the limit: a task that was cut before the last halving tells nothing new.
        """
        self.size = max(1, min(self.size, size))
        self._large_tasks = 0

    def grow(self, size: int) -> None:
        """Count a task that had enough memory; after many large ones allow a little more."""
        if self.size == self._largest or 2 * size <= self.size:
            return
        self._large_tasks += 1
        if self._large_tasks >= _PROBATION_TASKS:
            self._large_tasks = 0
            self.size = min(self._largest, self.size + self.size // _GROWTH + 1)
