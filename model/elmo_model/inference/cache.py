"""The cache of inference: what depends on a word alone, its vector or its input products.

The character CNN computes a word once, not once a token. A token's share in the gates of the first
layer depends on the token alone; in running text most tokens are words that occurred shortly
before, and these products are up to a quarter of all.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

LONGEST_KEY = 256
"""Characters of the longest word that is a key itself. A token that a client did not split may have
megabytes: a longer word is known by its SHA-256."""

Tables = tuple[Tensor, ...]
"""One or more tables (rows, width), of any widths."""
Rows = NDArray[np.int64]


class WordCache:
    """The rows of at most `capacity` words in one or more tables; the least recently used drop out.

    A row is written before a word gets it, so that an error meanwhile leaves no word with a wrong
    row. `hits` and `misses` count the distinct words of every call, also with a capacity of 0.
    Thread-safe: two threads that miss the same word both compute it, to the same numbers.
    """

    def __init__(self, capacity: int, *like: Tensor) -> None:
        """Reserve tables of the widths, types and devices of `like`, one or more (any, width).

        The operating system gives the memory of a CPU when it is first written to.
        """
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._lock = threading.RLock()  # a lease may end in the middle of a call, by a collection
        self._tables: Tables = tuple(each.new_empty(capacity, each.shape[1]) for each in like)
        self._rows: OrderedDict[str, int] = OrderedDict()  # the least recently used word first
        self._has_word = np.zeros(capacity, dtype=bool)
        self._leases = np.zeros(capacity, dtype=np.int64)

    @property
    def size(self) -> int:
        """The number of words in the cache."""
        return len(self._rows)

    def look_up(self, words: Sequence[str], compute: Callable[[Sequence[int]], Tables]) -> "Lease":
        """Return the rows of m distinct words.

        `compute` maps places in `words` to their rows; it is called for the words that are missing,
        if there are any, or for all words where these do not fit beside the rows of other leases.
        """
        keys = [word if len(word) <= LONGEST_KEY else _key(word) for word in words]
        with self._lock:
            found = [self._rows.get(key, -1) for key in keys]
            for key, row in zip(keys, found, strict=True):
                if row >= 0:
                    self._rows.move_to_end(key)
            rows = np.array(found, dtype=np.int64)
            missing = np.flatnonzero(rows < 0)
            self.hits += len(rows) - len(missing)
            self.misses += len(missing)
            lease = Lease(self._tables, rows[rows >= 0], self)  # so that none is forgotten
            free = self._free(len(missing))
            if free is not None:
                rows[missing] = free
                lease = Lease(self._tables, rows, self)
        if free is None:
            return Lease(compute(range(len(words))), np.arange(len(words)))
        if len(missing):
            where = torch.from_numpy(free).to(self._tables[0].device, non_blocking=True)
            for table, values in zip(self._tables, compute(missing.tolist()), strict=True):
                table.index_copy_(0, where, values)
            with self._lock:
                self._name([keys[place] for place in missing], free)
        return lease

    def clear(self) -> None:
        """Forget every word whose row is not in use; `hits` and `misses` stay."""
        with self._lock:
            self._forget(self.capacity)

    def _free(self, count: int) -> Rows | None:
        """Return `count` rows that no word and no lease has, or None where there are too few."""
        if count == 0:
            return np.empty(0, dtype=np.int64)
        for _ in range(2):
            free = np.flatnonzero(~self._has_word & (self._leases == 0))
            if len(free) >= count:
                return free[:count]
            self._forget(count - len(free))
        return None

    def _forget(self, count: int) -> None:
        """Take the rows of `count` words that no lease has, the least recently used first."""
        unused = (key for key, row in self._rows.items() if not self._leases[row])
        for key in list(islice(unused, count)):
            self._has_word[self._rows.pop(key)] = False

    def _name(self, keys: Sequence[str], rows: Rows) -> None:
        """Give rows to words; a word that another thread has computed meanwhile keeps its row."""
        new = {
            key: row for key, row in zip(keys, rows.tolist(), strict=True) if key not in self._rows
        }
        self._has_word[list(new.values())] = True
        self._rows.update(new)

    def _count(self, rows: Rows, change: int) -> None:
        """Add to the number of leases of distinct rows."""
        with self._lock:
            np.add.at(self._leases, rows, change)


class Lease:
    """The rows (m,) of m words in `tables`; they stay those of the words while the lease exists."""

    __slots__ = ("_cache", "rows", "tables")

    def __init__(self, tables: Tables, rows: Rows, cache: WordCache | None = None) -> None:
        """Lease rows of a cache, or hold tables of one's own."""
        self.tables, self.rows, self._cache = tables, rows, cache
        if cache is not None:
            cache._count(rows, 1)

    def __del__(self) -> None:
        if self._cache is not None:
            self._cache._count(self.rows, -1)


def _key(word: str) -> str:
    """Return the key of a long word: SHA-256 has no two words with the same number."""
    return hashlib.sha256(word.encode(errors="surrogatepass")).hexdigest() + "\0"
