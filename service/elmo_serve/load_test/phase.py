"""Counts of one phase of a load test: some seconds of one kind of load."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PERCENTILES = (50.0, 90.0, 99.0, 99.9)
"""The percentiles that tables and JSON have, in percent."""

_FAULTS = 5
"""Faults that are kept as text; all are counted."""


def seconds() -> array[float]:
    """Return an empty array of times in seconds: 8 bytes each, 19 MB for 2.4 million requests."""
    return array("d")


def percentiles(times: array[float]) -> dict[float, float]:
    """Return the `PERCENTILES` of some times, by percent; NaN without any."""
    if not times:
        return dict.fromkeys(PERCENTILES, math.nan)
    return dict(zip(PERCENTILES, map(float, np.percentile(times, PERCENTILES)), strict=True))


@dataclass(slots=True)
class Phase:
    """Counts over the requests of a phase. Times are seconds of `time.perf_counter`.

    Requests that were due from `since` to `until` count; wrong, failed and lost ones count in the
    warm-up before it too. A refusal (429, 503) is a response of a healthy server. A late request
    was answered 504, or after the timeout.

    Attributes:
        rate: requests/s of an open loop; None for a closed one.
        sent: requests that were due in the window.
        latencies: from the time a request was due to the end of its response, of answers in time.
        lags: from the time a request was due to the time it was sent: the load generator's own.
        done, done_tokens: right answers in time that came within the window, whenever they were
            due, and their tokens.
        responses, tokens, sent_bytes, received_bytes: of all answered requests.
        worst: the largest difference of an answer, in tolerances.
    """

    name: str
    since: float = -math.inf
    until: float = math.inf
    rate: float | None = None
    sent: int = 0
    answered: int = 0
    late: int = 0
    lost: int = 0
    wrong: int = 0
    compared: int = 0
    done: int = 0
    done_tokens: int = 0
    responses: int = 0
    tokens: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    worst: float = 0.0
    is_interrupted: bool = False
    refused: Counter[int] = field(default_factory=Counter)
    failed: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    latencies: array[float] = field(default_factory=seconds)
    lags: array[float] = field(default_factory=seconds)

    def is_measured(self, time: float) -> bool:
        """Tell whether a time is in the window."""
        return self.since <= time < self.until

    def fault(self, text: str) -> None:
        """Keep the text of a fault, while there are few."""
        if len(self.faults) < _FAULTS:
            self.faults.append(text)

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return max(self.until - self.since, 1e-9)

    @property
    def requests_per_second(self) -> float:
        """Requests a second that were answered, right and in time."""
        return self.done / self.seconds

    @property
    def tokens_per_second(self) -> float:
        """Their tokens a second: the goodput."""
        return self.done_tokens / self.seconds

    @property
    def is_bad(self) -> bool:
        """Whether a vector was wrong, a request lost, or a response neither vectors nor refusal."""
        return bool(self.wrong or self.lost or self.failed)

    @property
    def is_too_short(self) -> bool:
        """Whether the window ended before any response, be it vectors, a refusal or a failure."""
        others = self.refused or self.late or self.is_bad or self.is_interrupted
        return not (self.done or others)

    def as_json(self) -> dict[str, Any]:
        """Return the counts as members of JSON. Latencies are in milliseconds, null without any."""
        answered = max(self.tokens, 1)
        return {
            "load": self.name,
            "offered_rate": self.rate,
            "seconds": self.seconds,
            "requests": {
                "sent": self.sent,
                "answered": self.answered,
                "refused": {str(status): count for status, count in self.refused.items()},
                "late": self.late,
                "failed": {str(status): count for status, count in self.failed.items()},
                "lost": self.lost,
            },
            "vectors": {
                "compared": self.compared,
                "wrong": self.wrong,
                "largest_difference_in_tolerances": self.worst,
            },
            "requests_per_second": self.requests_per_second,
            "tokens_per_second": self.tokens_per_second,
            "sent_bytes_per_token": self.sent_bytes / answered,
            "received_bytes_per_token": self.received_bytes / answered,
            "latency_ms": _milliseconds(self.latencies),
            "send_lag_ms": _milliseconds(self.lags),
            "faults": self.faults,
        }


def _milliseconds(times: array[float]) -> dict[str, float]:
    """Return the percentiles, the largest and the mean of some times, by their names."""
    found = {f"p{percent:g}": value for percent, value in percentiles(times).items()}
    found["max"] = max(times, default=math.nan)
    found["mean"] = sum(times) / len(times) if times else math.nan
    return {name: 1e3 * value for name, value in found.items()}
