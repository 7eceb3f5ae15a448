"""Finds the rate at which a server saturates: its answers no longer follow the offered rate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from elmo_serve.load_test.tally import Tally

FOLLOWS = 0.95
"""Least share of the offered requests that are answered, right and in time, below saturation."""

_PRECISION = 1.05
"""Ratio of the lowest rate that was not followed to the highest that was, at which to stop."""

_MOST_RATE = 1e6  # requests/s: beyond it no server is measured but the load generator


@dataclass(frozen=True, slots=True)
class Saturation:
    """The highest rate that was followed, and the lowest that was not: None where there is none."""

    followed: Tally | None
    beyond: Tally | None


async def find_saturation(
    measure: Callable[[float], Awaitable[Tally]], start_rate: float
) -> Saturation:
    """Double the rate from `start_rate` requests/s until it is not followed, then bisect.

    `measure` offers a rate. The bisection halves the ratio of the two rates until it is 1.05.
    """
    followed: Tally | None = None
    beyond: Tally | None = None
    low, high, rate = 0.0, float("inf"), start_rate
    while rate < _MOST_RATE and (not low or high / low > _PRECISION):
        found = await measure(rate)
        if follows(found):
            followed, low = found, rate
        else:
            beyond, high = found, rate
        if beyond is None:
            rate *= 2
        elif low:
            rate = (low * high) ** 0.5
        elif (rate := rate / 2) < start_rate / 1_000:
            break
    return Saturation(followed, beyond)


def follows(found: Tally) -> bool:
    """Tell whether the answers of a phase follow its offered requests."""
    return found.done >= FOLLOWS * found.sent > 0
