"""The cache of inference: what depends on a word alone, its vector or its input products.

The character CNN computes a word once, not once a token. A token's share in the gates of the first
layer depends on the token alone; in running text most tokens are words that occurred shortly
before, and these products are up to a quarter of all.
"""

import hashlib
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

LONGEST_KEY = 256
"""Characters of the longest word that is a key itself. A token that a client did not split may have
megabytes: a longer word is known by its SHA-256, in bytes, which are no word."""

Tables = tuple[Tensor, ...]
"""One or more tables (rows, width), of any widths."""
Rows = NDArray[np.int64]
"""Numbers of rows of the tables, (words,)."""
Keys = Sequence[str | bytes]
# The part of a full cache that is forgotten at once: finding the oldest words reads all their ages.
_FORGOTTEN = 1 / 32


class WordCache:
    """The rows of at most `capacity` words in one or more tables; the least recently used drop out.

    A row is written before a word gets it, so that an error meanwhile leaves no word with a wrong
    row. While a lease exists, the rows that were used by its call or by a later one stay those of
    their words. `hits` and `misses` count the distinct words of every call, also with a capacity of
    0. Thread-safe: two threads that miss the same word both compute it, to the same numbers.
    """

    def __init__(self, capacity: int, *like: Tensor) -> None:
        """Reserve tables of the widths, types and devices of `like`, one or more (any, width).

        The operating system gives the memory of a CPU when it is first written to.
        """
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._lock = threading.Lock()
        self._tables: Tables = tuple(each.new_empty(capacity, each.shape[1]) for each in like)
        self._rows: dict[str | bytes, int] = {}
        self._keys = np.empty(capacity, dtype=object)  # of each row, as it was when last named
        self._used = np.zeros(capacity, dtype=np.int64)  # the last call that used a row; 0: free
        self._calls = 0
        self._leased: dict[int, None] = {}  # the calls whose leases exist, oldest first

    @property
    def size(self) -> int:
        """The number of words in the cache."""
        return len(self._rows)

    def known(self, tokens: Sequence[str]) -> "Lease | None":
        """Return the row of each of n tokens, or None and no hit where one is missing.

        Tokens longer than `LONGEST_KEY` count as missing.
        """
        with self._lock:
            try:
                found = map(self._rows.__getitem__, tokens)
                rows = np.fromiter(found, dtype=np.int64, count=len(tokens))
            except KeyError:
                return None
            marks = np.arange(self._calls + 1, self._calls + 1 + len(rows))
            self._used[rows] = marks  # of equal rows the last one stays: this counts distinct rows
            self.hits += int(np.count_nonzero(self._used[rows] == marks))
            return self._lease(rows)

    def look_up(self, words: Sequence[str], compute: Callable[[Sequence[int]], Tables]) -> "Lease":
        """Return the rows of m distinct words.

        `compute` maps places in `words` to their rows; it is called for the words that are missing,
        if there are any, or for all words where these do not fit beside the rows that are leased.
        """
        keys = _keys(words)
        with self._lock:
            rows = np.fromiter(map(self._rows.get, keys, repeat(-1)), np.int64, len(keys))
            missing = np.flatnonzero(rows < 0)
            self.hits += len(rows) - len(missing)
            self.misses += len(missing)
            lease = self._lease(rows)
            if len(missing) == 0:
                return lease
            free = self._free(len(missing))
            if free is not None:
                rows[missing] = free
                self._used[free] = self._calls
                self._keys[free] = None
        if free is None:
            return Lease(compute(range(len(words))), np.arange(len(words)))
        where = torch.from_numpy(free).to(self._tables[0].device, non_blocking=True)
        for table, values in zip(self._tables, compute(missing.tolist()), strict=True):
            table.index_copy_(0, where, values)
        with self._lock:
            self._name([keys[place] for place in missing.tolist()], free)
        return lease

    def clear(self) -> None:
        """Forget every word whose row is not leased; `hits` and `misses` stay."""
        with self._lock:
            self._forget(self.capacity)

    def _lease(self, rows: Rows) -> "Lease":
        """Begin a call that uses rows, in which -1 is none, and lease them."""
        self._calls += 1
        self._used[rows[rows >= 0]] = self._calls
        self._leased[self._calls] = None
        return Lease(self._tables, rows, partial(self._leased.pop, self._calls))

    def _free(self, count: int) -> Rows | None:
        """Return `count` rows that no word and no lease has, or None where there are too few."""
        for _ in range(2):
            free = np.flatnonzero(self._used == 0)
            if len(free) >= count:
                return free[:count]
            self._forget(max(count - len(free), int(self.capacity * _FORGOTTEN)))
        return None

    def _forget(self, count: int) -> None:
        """Take the rows of `count` words that no lease has, the least recently used first."""
        # One call, unlike next(iter(...)): a lease may end at any time, without the lock.
        oldest = min(self._leased, default=self._calls + 1)
        rows = np.flatnonzero((self._used > 0) & (self._used < oldest))
        if len(rows) > count:
            rows = rows[np.argpartition(self._used[rows], count)[:count]]
        for key in self._keys[rows]:
            self._rows.pop(key, None)  # a row without a name has None
        self._used[rows] = 0

    def _name(self, keys: Keys, rows: Rows) -> None:
        """Give rows to words; a word that another thread has computed meanwhile keeps its row."""
        new = {
            key: row for key, row in zip(keys, rows.tolist(), strict=True) if key not in self._rows
        }
        self._keys[list(new.values())] = list(new)
        self._rows.update(new)


class Lease:
    """The rows (m,) of m words in `tables`; they stay those of the words while the lease exists."""

    __slots__ = ("_end", "rows", "tables")

    def __init__(self, tables: Tables, rows: Rows, end: Callable[[], None] | None = None) -> None:
        """Lease rows of a cache until `end` is called, or hold tables of one's own.

        `end` takes no lock: a garbage collection may call it in the middle of a call of the cache.
        """
        self.tables, self.rows, self._end = tables, rows, end

    def vectors(self) -> Tensor:
        """Return the rows (m, width) of the first table."""
        rows = torch.from_numpy(self.rows).to(self.tables[0].device, non_blocking=True)
        return self.tables[0].index_select(0, rows)

    def __del__(self) -> None:
        if self._end is not None:
            self._end()


def _keys(words: Sequence[str]) -> Keys:
    """Return the keys of words: SHA-256 has no two long words with the same number."""
    if max(map(len, words), default=0) <= LONGEST_KEY:
        return words
    return [word if len(word) <= LONGEST_KEY else _number(word) for word in words]


def _number(word: str) -> bytes:
    return hashlib.sha256(word.encode(errors="surrogatepass")).digest()
