"""Computations that stop after each time step, run to their end."""

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


def whole(steps: Generator[None, None, Result]) -> Result:
    """Run a computation to its end and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
