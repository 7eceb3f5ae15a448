"""The caches of inference: the vectors of words, and what the first layer's gates get from them.

The character CNN computes a word once, not once a token. A token's share in the gates of the first
layer depends on the token alone; in running text most tokens are words that occurred shortly
before, and these products are up to a quarter of all.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

LONGEST_WORD = 256
"""Characters of the longest word that gets a row. A token that a client did not split may have
megabytes, and a word is kept whole: with a larger number the caches take more memory."""

# Rows of the first store. The store doubles when it is full; a larger number wastes memory in small
# jobs.
_FIRST_ROWS = 1024

Projections = tuple[Tensor, Tensor]
"""Input products (words, 4D) of the forward and of the backward direction."""


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


class WordCache:
    """At most `capacity` word vectors; the least recently used ones are dropped first.

    A word of more than `LONGEST_WORD` characters is computed and not kept. `hits` and `misses`
    count the distinct words of every call, also with a capacity of 0. Thread-safe: two threads that
    miss the same word both compute it, to the same vector.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._lock = threading.Lock()
        self._lru = LRU(capacity)
        self._vectors: Tensor | None = None  # (rows, width), grows up to `capacity` rows

    @property
    def size(self) -> int:
        """The number of words in the cache."""
        return len(self._lru)

    def look_up(self, words: Sequence[str], embed: Callable[[Sequence[str]], Tensor]) -> Tensor:
        """Map m distinct words to (m, width); `embed` computes the words that are missing."""
        with self._lock:
            rows = [self._lru.find(word) for word in words]
            known = [(place, row) for place, row in enumerate(rows) if row >= 0]
            held = None
            if known and self._vectors is not None:
                places, found = zip(*known, strict=True)
                held = self._vectors[_index(found, self._vectors.device)]
            self.hits += len(known)
            self.misses += len(words) - len(known)
        if held is not None and len(known) == len(words):
            return held
        missing = [place for place, row in enumerate(rows) if row < 0]
        fresh = embed([words[place] for place in missing])
        self._keep([words[place] for place in missing], fresh)
        if held is None:
            return fresh
        vectors = fresh.new_empty(len(words), fresh.shape[1])
        vectors[_index(places, fresh.device)] = held
        vectors[_index(missing, fresh.device)] = fresh
        return vectors

    def clear(self) -> None:
        """Forget every word; `hits` and `misses` stay."""
        with self._lock:
            self._lru.clear()
            self._vectors = None

    def _keep(self, words: Sequence[str], vectors: Tensor) -> None:
        short = [place for place, word in enumerate(words) if len(word) <= LONGEST_WORD]
        if len(short) < len(words):
            words, vectors = (
                [words[place] for place in short],
                vectors[_index(short, vectors.device)],
            )
        first = max(0, len(words) - self.capacity)  # of more words than fit, the last ones stay
        words, vectors = words[first:], vectors[first:]
        if not words:
            return
        with self._lock:
            rows = [self._lru.assign(word) for word in words]
            store = self._store_of(max(rows) + 1, vectors)
            store[_index(rows, store.device)] = vectors

    def _store_of(self, rows: int, like: Tensor) -> Tensor:
        """Return the store, grown to at least `rows` rows."""
        old = self._vectors
        if old is not None and len(old) >= rows:
            return old
        doubled = 0 if old is None else 2 * len(old)
        size = min(self.capacity, max(rows, _FIRST_ROWS, doubled))
        store = like.new_empty(size, like.shape[1])
        if old is not None:
            store[: len(old)] = old
        self._vectors = store
        return store


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
    """

    def __init__(self, capacity: int, like: Projections) -> None:
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


def _index(rows: Sequence[int], device: torch.device) -> Tensor:
    return torch.tensor(rows, dtype=torch.int64).to(device, non_blocking=True)
