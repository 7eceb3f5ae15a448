"""A histogram of latencies: fixed memory for any number of requests, 0.1 % resolution."""

from __future__ import annotations

import math

import numpy as np

PERCENTILES = (50.0, 90.0, 99.0, 99.9)
"""The percentiles that tables and JSON have, in percent."""

_LEAST_SECONDS = 1e-6
_MOST_SECONDS = 86_400.0
_GROWTH = 1.001
"""Ratio of the limits of a bucket. A larger one takes less memory and rounds more."""

_LOG_GROWTH = math.log(_GROWTH)
_BUCKETS = math.ceil(math.log(_MOST_SECONDS / _LEAST_SECONDS) / _LOG_GROWTH) + 1


class Latencies:
    """Counts of latencies in buckets whose limits grow by 0.1 %: 200 kB, whatever is recorded.

    The idea is that of HdrHistogram (Gil Tene): the relative error is the same for microseconds
    and for minutes. The largest value and the sum are exact.
    """

    def __init__(self) -> None:
        self._counts = np.zeros(_BUCKETS, np.int64)
        self._sum = 0.0
        self.count = 0
        self.largest = 0.0

    def record(self, seconds: float) -> None:
        """Count a latency; one outside of 1 microsecond to 1 day counts at that end."""
        ratio = max(seconds, _LEAST_SECONDS) / _LEAST_SECONDS
        self._counts[min(int(math.log(ratio) / _LOG_GROWTH), _BUCKETS - 1)] += 1
        self.count += 1
        self._sum += seconds
        self.largest = max(self.largest, seconds)

    @property
    def mean(self) -> float:
        """The mean in seconds; NaN without a latency."""
        return self._sum / self.count if self.count else math.nan

    def percentile(self, percent: float) -> float:
        """Return the latency in seconds that `percent` of the requests do not exceed.

        It is the upper limit of the bucket of the k-th smallest latency, k = ceil(percent of the
        count), and at most the largest latency. NaN without a latency.
        """
        if not self.count:
            return math.nan
        rank = max(1, math.ceil(percent / 100 * self.count - 1e-9))
        bucket = int(np.searchsorted(np.cumsum(self._counts), rank))
        return float(min(_LEAST_SECONDS * _GROWTH ** (bucket + 1), self.largest))

    def milliseconds(self) -> dict[str, float]:
        """Return the percentiles, the largest and the mean in milliseconds, by their names."""
        found = {f"p{percent:g}": self.percentile(percent) for percent in PERCENTILES}
        found |= {"max": self.largest if self.count else math.nan, "mean": self.mean}
        return {name: 1e3 * seconds for name, seconds in found.items()}
