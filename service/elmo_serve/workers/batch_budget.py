"""The size of the batches of one worker: smaller after its device ran out of memory."""

from __future__ import annotations

_PROBATION_BATCHES = 32
"""Large batches without a failure before a larger one is tried.

A larger value grows back later, a smaller one runs out of memory more often.
"""

_GROWTH = 8
"""The budget grows by one part in so many at a time."""


class BatchBudget:
    """The padded tokens that a batch may hold, at most `largest`."""

    def __init__(self, largest: int) -> None:
        self.tokens = largest
        self._largest = largest
        self._sound_batches = 0

    def shrink(self, failed_tokens: int) -> None:
        """Allow half of a batch that ran out of memory.

        Not half of the budget: a batch that was cut before the last halving tells nothing new.
        """
        self.tokens = max(1, min(self.tokens, failed_tokens // 2))
        self._sound_batches = 0

    def grow(self, tokens: int) -> None:
        """Count a batch that had enough memory; after many large ones allow a little more."""
        if self.tokens == self._largest or 2 * tokens <= self.tokens:
            return
        self._sound_batches += 1
        if self._sound_batches >= _PROBATION_BATCHES:
            self._sound_batches = 0
            self.tokens = min(self._largest, self.tokens + self.tokens // _GROWTH + 1)
