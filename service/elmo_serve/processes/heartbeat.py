"""The heartbeat of a child process: messages by which the server knows that it still computes."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final, TypeVar

SILENT_SECONDS: Final = 20.0
"""Seconds without a message after which a child that computes counts as hung. A larger value finds
a hung child later, a smaller one kills children of a busy machine (`python -m benchmarks.faults`).
"""

LOADING_SECONDS: Final = 600.0
"""The same for a child that starts, or reads a large file. A larger value waits longer for a file
system that hangs, a smaller one gives up slow disks."""

_BEAT_SECONDS: Final = 1.0
"""Seconds between two messages of a child that computes: one takes some 20 microseconds."""


Result = TypeVar("Result")

Steps = Generator[float | None, None, Result]
"""A computation that stops now and then for a heartbeat, and returns a result in the end. It yields
the longest silence in seconds that is to be allowed for its next part, None for the usual one."""


@dataclass(frozen=True, slots=True)
class Alive:
    """The child still computes, and may be silent for `seconds` from now on."""

    seconds: float = SILENT_SECONDS


class Heartbeat:
    """Sends `Alive` for a child that computes; `send` sends a message to the server.

    One thread sends. `is_due` may be asked by any thread.
    """

    def __init__(
        self, send: Callable[[Alive], None], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._send = send
        self._now = now
        self._last = now()

    @property
    def is_due(self) -> bool:
        """Tell whether the last message was sent a second ago."""
        return self._now() - self._last >= _BEAT_SECONDS

    def beat(self, seconds: float | None = None) -> None:
        """Send a message if it is due, and at once where another silence than the usual is asked.

        `seconds` is what a computation yields, see `Steps`.
        """
        if seconds is not None or self.is_due:
            self._last = self._now()
            self._send(Alive(seconds or SILENT_SECONDS))
