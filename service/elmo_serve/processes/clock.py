"""A clock that tests can replace, and the real one."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that is to come."""

    def cancel(self) -> None:
        """Prevent the call."""


class Clock(Protocol):
    """The time in seconds, and calls that are made later."""

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
