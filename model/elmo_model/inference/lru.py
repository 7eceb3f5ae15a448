"""Least recently used: which row of a store belongs to which word."""

from collections import OrderedDict

LONGEST_WORD = 256
"""Characters of the longest word that gets a row. A token that a client did not split may have
megabytes, and a word is kept whole: with a larger number the caches take more memory."""


class LRU:
    """At most `capacity` words, each with a row below `capacity`. Not thread-safe.

    A new word gets a free row or that of the least recently used word, which is forgotten.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._rows: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, word: str) -> int:
        """Return the row of a word, which counts as a use; -1 for a word without a row."""
        row = self._rows.get(word, -1)
        if row >= 0:
            self._rows.move_to_end(word)
        return row

    def assign(self, word: str) -> int:
        """Return the row of a word, which counts as a use; a word without a row gets one."""
        row = self.find(word)
        if row < 0:
            row = len(self._rows)
            if row >= self.capacity:
                _, row = self._rows.popitem(last=False)
            self._rows[word] = row
        return row

    def clear(self) -> None:
        """Forget every word."""
        self._rows.clear()
