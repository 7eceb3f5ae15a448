"""The pace of one worker, and the seconds of work ahead of a request."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

_DECAY = 0.9
"""Weight of earlier batches when one more is counted. Higher values follow changes more slowly."""

_UNMEASURED_SECONDS_PER_TOKEN = 1e-3
"""Assumed until a worker has reported the time of its warm-up."""

_FRESH_SECONDS = 60.0
"""Age at which a measurement is not trusted any more. Without this limit, a wrong estimate could
refuse every request whose batch would correct it."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Seconds of work, of all workers together, that is queued or runs.

    `bulk` is that of bulk requests, `interactive` all other; `due` is the part of `bulk` whose turn
    comes before the last interactive sentence.
    """

    interactive: float
    bulk: float
    due: float

    def wait(self, *, is_bulk: bool, later: float = 0.0) -> float:
        """Estimate the seconds that a request waits which comes `later` seconds from now.

        Meanwhile the workers compute, and nobody else comes. Bulk waits for all work. An
        interactive request waits for other interactive ones and for bulk that is due, which has at
        most half of the workers: interactive sentences interrupt it.
        """
        if is_bulk:
            return self.interactive + self.bulk - later
        return self.interactive + min(self.interactive, self.due) - later


class ThroughputEstimate:
    """Seconds per token of one worker: a moving average over batches of vectors.

    They are at least half full: smaller ones are bound by latency and would make a long queue look
    slower than it is.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tokens = 0.0
        self._seconds = 0.0
        self._measured_at = 0.0
        self._warm_up = 0.0
        self._best = math.inf

    def start_from(self, seconds_per_token: float) -> None:
        """Use the pace of a worker's warm-up until batches were measured; 0 is no measurement."""
        if seconds_per_token:
            self._warm_up = seconds_per_token
            self._best = min(self._best, seconds_per_token)

    def add(self, tokens: int, seconds: float, *, fullness: float) -> None:
        """Count a batch that took `seconds`; `fullness` is its size, of the largest batch."""
        if fullness >= 0.5:
            self._tokens = _DECAY * self._tokens + tokens
            self._seconds = _DECAY * self._seconds + seconds
            self._best = min(self._best, self._seconds / self._tokens)
            self._measured_at = self._clock()

    @property
    def is_measured(self) -> bool:
        """Whether a batch was measured recently."""
        return self._tokens > 0 and self._clock() - self._measured_at < _FRESH_SECONDS

    @property
    def seconds_per_token(self) -> float:
        """The seconds that one worker takes for a token."""
        if self.is_measured:
            return self._seconds / self._tokens
        return self._warm_up or _UNMEASURED_SECONDS_PER_TOKEN

    @property
    def best_seconds_per_token(self) -> float:
        """The least seconds per token so far; 0 unless a batch was measured recently.

        The pace of a warm-up alone is 0: it may have been disturbed, and no request could correct
        it if it refused them. A batch with one long sentence is half full too, and slower than one
        with many, so the best pace is kept.
        """
        return self._best if self.is_measured else 0.0
