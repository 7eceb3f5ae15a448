"""Which row of a store belongs to which word; the least recently used word gives its row away."""

from collections import OrderedDict


class Slots:
    """At most `capacity` words, each with a row below `capacity`. Not safe between threads."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._rows: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, word: str) -> int:
        """Return the row of a word, which counts as a use; -1 for a word that has none."""
        row = self._rows.get(word, -1)
        if row >= 0:
            self._rows.move_to_end(word)
        return row

    def give(self, word: str) -> int:
        """Return the row of a word; one that has none gets a free one, or the longest unused."""
        row = self.find(word)
        if row < 0:
            row = len(self._rows)
            if row >= self.capacity:
                _, row = self._rows.popitem(last=False)
            self._rows[word] = row
        return row

    def clear(self) -> None:
        """Take every word's row away."""
        self._rows.clear()
