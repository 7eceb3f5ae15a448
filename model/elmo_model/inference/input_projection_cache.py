"""What the first layer makes of frequent words, so that its products with them are made once.

A token's share in the gates of the first layer depends on the token alone. In running text most
tokens are words met shortly before, and those products are up to a quarter of all.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from elmo_model.inference.lru import Slots

Gates = tuple[Tensor, Tensor]
"""Of the forward and of the backward direction, each (words, 4D)."""


@dataclass(frozen=True, slots=True)
class KnownGates:
    """Tables (rows, 4D) of both directions, and the row (words,) of each word in them."""

    tables: Gates
    rows: Tensor


class GateCache:
    """The gates of at most `capacity` words, the least recently used ones leave first.

    Nothing is copied out: who reads holds the cache until done, and who finds it held, or too small
    for the words of a batch, goes without.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 0:
            raise ValueError(f"capacity is {capacity}, expected 0 or more words")
        self.capacity = capacity
        self._lock = threading.Lock()
        self._slots = Slots(capacity)
        self._tables: Gates | None = None

    @contextmanager
    def hold(
        self, words: Sequence[str], compute: Callable[[Sequence[int]], Gates]
    ) -> Iterator[KnownGates | None]:
        """Yield the gates of distinct words, to be used inside of the block only.

        `compute` maps places in `words` to their gates; it is asked for those that are not held.
        """
        fits = 0 < len(words) <= self.capacity
        if not fits or not self._lock.acquire(blocking=False):
            yield None
            return
        try:
            yield self._known(words, compute)
        finally:
            self._lock.release()

    def clear(self) -> None:
        """Forget every word, and what they would be held in."""
        with self._lock:
            self._slots.clear()
            self._tables = None

    def __reduce__(self) -> tuple[type["GateCache"], tuple[int]]:
        return GateCache, (self.capacity,)  # a copy starts empty: the lock cannot be copied

    def _known(self, words: Sequence[str], compute: Callable[[Sequence[int]], Gates]) -> KnownGates:
        rows = [self._slots.find(word) for word in words]
        missing = [place for place, row in enumerate(rows) if row < 0]
        if missing:
            fresh = compute(missing)
            # None of these words is given away for another of them: they are the last ones used.
            for place in missing:
                rows[place] = self._slots.give(words[place])
            where = torch.tensor([rows[place] for place in missing])
            for table, gates in zip(self._tables_like(fresh), fresh, strict=True):
                table.index_copy_(0, where, gates)
        assert self._tables is not None  # where nothing is missing something was held
        return KnownGates(self._tables, torch.tensor(rows))

    def _tables_like(self, gates: Gates) -> Gates:
        """Return the tables; their memory comes from the system as it is first written to."""
        if self._tables is None:
            # A tensor born in inference mode could not be written to outside of it.
            with torch.inference_mode(False), torch.no_grad():
                ahead, behind = (each.new_empty(self.capacity, each.shape[1]) for each in gates)
            self._tables = ahead, behind
        return self._tables
