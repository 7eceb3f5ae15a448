"""Means over seeds with their intervals."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Quantiles of Student's t for a two-sided interval of 95 %, from 1 to 9 degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and half the width of its 95 % interval; `half` is None for one seed."""

    mean: float
    half: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Interval":
        """Return the interval of Student's t over the values of some seeds, at least one."""
        mean = statistics.fmean(values)
        if len(values) < 2:
            return cls(mean, None)
        quantile = _T_95[min(len(values) - 2, len(_T_95) - 1)]
        return cls(mean, quantile * statistics.stdev(values) / math.sqrt(len(values)))

    def percent(self) -> str:
        """Return the interval in percent, such as `89.12 ± 0.30`."""
        half = "" if self.half is None else f" ± {100 * self.half:.2f}"
        return f"{100 * self.mean:.2f}{half}"
