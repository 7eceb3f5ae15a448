"""A cache of input products: what the gates of the first layer get from frequent words.

A token's share in the gates of the first layer depends on the token alone. In running text most
tokens are words that occurred shortly before, and these products are up to a quarter of all.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from elmo_model.inference.lru import LONGEST_WORD, LRU

Projections = tuple[Tensor, Tensor]
"""Input products (words, 4D) of the forward and of the backward direction."""


@dataclass(frozen=True, slots=True)
class KnownProjections:
    """Tables (rows, 4D) of both directions, and the row (words,) of each word in them."""

    tables: Projections
    rows: Tensor


class InputProjectionCache:
    """The input products of at most `capacity` words; the least recently used are dropped first.

    `like` are products whose width, type and device the tables get. The operating system gives the
    memory of the tables when they are first written to.

    Nothing is copied out: a batch holds the cache until it is computed. A batch that finds the
    cache held by another one, or that has more words than fit or one of more than `LONGEST_WORD`
    characters, computes without it.

    Raises ValueError for a negative capacity.
    """

    def __init__(self, capacity: int, like: Projections) -> None:
        if capacity < 0:
            raise ValueError(f"capacity is {capacity}, expected 0 or more words")
        self.capacity = capacity
        self._lock = threading.Lock()
        self._lru = LRU(capacity)
        forward, backward = (each.new_empty(capacity, each.shape[1]) for each in like)
        self._tables: Projections = (forward, backward)

    @classmethod
    def of_size(cls, size: int, like: Projections) -> Self:
        """Return a cache of at most `size` bytes on a CPU.

        On another device the capacity is 0: a look-up there costs more than the product.
        """
        one = sum(each[:1].nbytes for each in like)
        return cls(size // one if like[0].device.type == "cpu" else 0, like)

    @contextmanager
    def hold(
        self, words: Sequence[str], compute: Callable[[Sequence[int]], Projections]
    ) -> Iterator[KnownProjections | None]:
        """Yield the input products of distinct words, valid inside of the `with` block only.

        `compute` maps places in `words` to their products; it is called for missing words. Yields
        None when the words do not fit or the cache is held by another thread.
        """
        fits = 0 < len(words) <= self.capacity and max(map(len, words)) <= LONGEST_WORD
        if not fits or not self._lock.acquire(blocking=False):
            yield None
            return
        try:
            yield self._known(words, compute)
        finally:
            self._lock.release()

    def clear(self) -> None:
        """Forget every word."""
        with self._lock:
            self._lru.clear()

    def _known(
        self, words: Sequence[str], compute: Callable[[Sequence[int]], Projections]
    ) -> KnownProjections:
        rows = [self._lru.find(word) for word in words]
        missing = [place for place, row in enumerate(rows) if row < 0]
        if missing:
            fresh = compute(missing)
            # No word of this batch loses its row to another one: they are the most recent ones.
            for place in missing:
                rows[place] = self._lru.assign(words[place])
            where = torch.tensor([rows[place] for place in missing])
            for table, products in zip(self._tables, fresh, strict=True):
                table.index_copy_(0, where, products)
        return KnownProjections(self._tables, torch.tensor(rows))
