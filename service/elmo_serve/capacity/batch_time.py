"""The time that a worker takes for a batch: a fixed part and a part for each token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from elmo_serve.load_test.tally import Batches

MINIMUM_SPREAD = 1.5
"""Least ratio of the mean batch sizes that tell the two parts apart."""


@dataclass(frozen=True, slots=True)
class BatchTime:
    """Seconds of a batch of n tokens, boundaries included: `fixed + n * per_token`."""

    fixed: float
    per_token: float

    def seconds(self, tokens: int) -> float:
        """Return the seconds of a batch."""
        return self.fixed + tokens * self.per_token

    def tokens_per_second(self, batch_tokens: int) -> float:
        """Return the tokens/s, boundaries included, of a worker with batches of so many tokens."""
        seconds = self.seconds(batch_tokens)
        return batch_tokens / seconds if seconds else math.inf

    @classmethod
    def fit(cls, measured: Sequence[Batches]) -> BatchTime:
        """Return the batch time that fits some measurements best.

        Each is the sum over many batches, so its mean batch is a point of the line. The deviation
        relative to the seconds is least in the squares, and neither part is negative. Where all
        mean batches have about one size, `per_token` takes all of it. Raises ValueError without
        measurements, and for batches without a time or tokens.
        """
        if not measured:
            raise ValueError("no batches were measured")
        if any(min(each.tokens, each.count, each.seconds) <= 0 for each in measured):
            raise ValueError("batches took no time or had no tokens")
        points = [(each.tokens / each.count, each.seconds / each.count) for each in measured]
        sizes = [tokens for tokens, _ in points]
        weights = [1 / seconds**2 for _, seconds in points]
        proportional = cls(
            0.0,
            sum(w * t * s for w, (t, s) in zip(weights, points, strict=True))
            / sum(w * t * t for w, (t, _) in zip(weights, points, strict=True)),
        )
        if max(sizes) < MINIMUM_SPREAD * min(sizes):
            return proportional
        total = sum(weights)
        mean_t = sum(w * t for w, (t, _) in zip(weights, points, strict=True)) / total
        mean_s = sum(w * s for w, (_, s) in zip(weights, points, strict=True)) / total
        both = sum(
            w * (t - mean_t) * (s - mean_s) for w, (t, s) in zip(weights, points, strict=True)
        )
        spread = sum(w * (t - mean_t) ** 2 for w, (t, _) in zip(weights, points, strict=True))
        slope = both / spread
        if slope <= 0:
            return cls(mean_s, 0.0)
        fixed = mean_s - slope * mean_t
        return cls(fixed, slope) if fixed > 0 else proportional
