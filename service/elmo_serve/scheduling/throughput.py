"""How fast the workers compute, as far as it is known."""

from __future__ import annotations

import time

from elmo_serve.workers.messages import Batch

_MEMORY = 0.9  # weight of what is known of the rate, beside one more batch
_FIRST_RATE = 1_000.0  # tokens a second and worker, while none is known
_FRESH_SECONDS = 60.0  # for which one is known


class Rate:
    """Tokens that a worker computes a second, learned from batches of some size.

    Small batches are not counted: they are bound by latency, and a queue is not made of them.
    """

    def __init__(self) -> None:
        self._tokens = 0.0
        self._seconds = 0.0
        self._last = 0.0
        self._first = 1 / _FIRST_RATE

    def start_from(self, seconds_per_token: float) -> None:
        """Take a worker's warm-up for the rate until there is a better one."""
        if seconds_per_token:
            self._first = seconds_per_token

    def add(self, batch: Batch, seconds: float, budget: int) -> None:
        """Count a batch that has come back."""
        if 2 * batch.padded_tokens >= budget:
            self._tokens = _MEMORY * self._tokens + batch.tokens
            self._seconds = _MEMORY * self._seconds + seconds
            self._last = time.monotonic()

    @property
    def is_known(self) -> bool:
        """Say whether it was learned of late: a bad one must not refuse all that would mend it."""
        return self._tokens > 0 and time.monotonic() - self._last < _FRESH_SECONDS

    def seconds(self, tokens: float, workers: int) -> float:
        """Return how long so many workers take for these tokens."""
        per_token = self._seconds / self._tokens if self.is_known else self._first
        return tokens * per_token / max(workers, 1)
