"""Computations that stop now and then, so that their thread can do something else meanwhile."""

from collections.abc import Generator
from typing import Any, TypeVar, cast

Result = TypeVar("Result")


def whole(steps: Generator[Any, None, Result]) -> Result:
    """Compute to the end without a stop; return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("Result", end.value)
