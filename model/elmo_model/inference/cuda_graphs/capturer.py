"""The interface that captures a computation and replays it."""

from collections.abc import Callable
from typing import Protocol


class CaptureError(Exception):
    """A computation cannot be captured, or its replay gives other numbers."""


class Capturer(Protocol):
    """Captures computations on fixed buffers that leave no new memory behind."""

    def both(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        """Compute both, in parallel where the device can."""

    def capture(self, compute: Callable[[], None]) -> Callable[[], None]:
        """Return a function that repeats `compute` on the same buffers.

        May run `compute`. Raises any exception that prevents the capture.
        """
