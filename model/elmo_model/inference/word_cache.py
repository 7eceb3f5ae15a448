"""A cache of word vectors: the character CNN computes a word once, not once a token."""

import threading
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from elmo_model.inference.lru import LONGEST_WORD, LRU

# Rows of the first store. The store doubles when it is full; a larger number wastes memory in small
# jobs.
_FIRST_ROWS = 1024


class WordCache:
    """At most `capacity` word vectors; the least recently used ones are dropped first.

    A word of more than `LONGEST_WORD` characters is computed and not kept. `hits` and `misses`
    count the distinct words of every call, also with a capacity of 0. Thread-safe: two threads that
    miss the same word both compute it, to the same vector.

    Raises ValueError for a negative capacity.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 0:
            raise ValueError(f"capacity is {capacity}, expected 0 or more words")
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


def _index(rows: Sequence[int], device: torch.device) -> Tensor:
    return torch.tensor(rows, dtype=torch.int64).to(device, non_blocking=True)
