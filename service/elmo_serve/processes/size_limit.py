"""The size that a task of a child may have: smaller for a while after memory ran out."""

_PROBATION_TASKS = 32
"""Large tasks without a failure before a larger one is tried.

A larger value grows back later, a smaller one runs out of memory more often.
"""

_GROWTH = 8
"""The size limit grows by one part in so many at a time."""


class SizeLimit:
    """The size that a task may have, at most `largest`; smaller after one ran out of memory."""

    def __init__(self, largest: int) -> None:
        self.size = largest
        self._largest = largest
        self._large_tasks = 0  # in a row, without a failure

    def limit(self, size: int) -> None:
        """Allow at most so much for now: half of a task that ran out of memory, or a warm-up's.

        Not half of the limit: a task that was cut before the last halving tells nothing new.
        """
        self.size = max(1, min(self.size, size))
        self._large_tasks = 0

    def grow(self, size: int) -> None:
        """Count a task that had enough memory; after many large ones allow a little more."""
        if self.size == self._largest or 2 * size <= self.size:
            return
        self._large_tasks += 1
        if self._large_tasks >= _PROBATION_TASKS:
            self._large_tasks = 0
            self.size = min(self._largest, self.size + self.size // _GROWTH + 1)
