"""Vectors of words met lately, so that the character CNN runs once a word and not once a token."""

import threading
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from elmo_model.inference.lru import Slots

_FIRST_SLOTS = 1024


class TokenCache:
    """At most `capacity` word vectors, the least recently used ones leave first.

    `hits` and `misses` count the distinct words of every call, also with a capacity of 0. Safe
    between threads: two that miss the same word compute it twice, to the same numbers.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 0:
            raise ValueError(f"capacity is {capacity}, expected 0 or more words")
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._lock = threading.Lock()
        self._slots = Slots(capacity)
        self._vectors: Tensor | None = None  # (slots, width), grows up to `capacity` rows

    @property
    def size(self) -> int:
        """Words held now."""
        return len(self._slots)

    def look_up(self, words: Sequence[str], embed: Callable[[Sequence[str]], Tensor]) -> Tensor:
        """Map distinct words to (words, width); those that are not held come from `embed`."""
        with self._lock:
            found = [self._slots.find(word) for word in words]
            known = [(row, slot) for row, slot in enumerate(found) if slot >= 0]
            held = None
            if known and self._vectors is not None:
                rows, slots = zip(*known, strict=True)
                held = self._vectors[_index(slots, self._vectors.device)]
            self.hits += len(known)
            self.misses += len(words) - len(known)
        if held is not None and len(known) == len(words):
            return held
        hit = {row for row, _ in known}
        missing = [row for row in range(len(words)) if row not in hit]
        fresh = embed([words[row] for row in missing])
        if held is None:
            vectors = fresh
        else:
            vectors = fresh.new_empty(len(words), fresh.shape[1])
            vectors[_index(rows, fresh.device)] = held
            vectors[_index(missing, fresh.device)] = fresh
        self._keep([words[row] for row in missing], fresh)
        return vectors

    def clear(self) -> None:
        """Forget every word; the counts go on."""
        with self._lock:
            self._slots.clear()
            self._vectors = None

    def __reduce__(self) -> tuple[type["TokenCache"], tuple[int]]:
        return TokenCache, (self.capacity,)  # a copy starts empty: the lock cannot be copied

    def _keep(self, words: Sequence[str], vectors: Tensor) -> None:
        first = max(0, len(words) - self.capacity)  # of more than fit, the last ones stay
        words, vectors = words[first:], vectors[first:]
        if not words:
            return
        with self._lock:
            slots = [self._slots.give(word) for word in words]
            store = self._store_of(max(slots) + 1, vectors)
            store[_index(slots, store.device)] = vectors.detach()

    def _store_of(self, slots: int, like: Tensor) -> Tensor:
        """Return the store, grown to hold `slots` rows."""
        old = self._vectors
        if old is not None and len(old) >= slots:
            return old
        rows = min(self.capacity, max(slots, _FIRST_SLOTS, 2 * len(old) if old is not None else 0))
        # A tensor born in inference mode could not be written to outside of it.
        with torch.inference_mode(False), torch.no_grad():
            store = torch.empty(rows, like.shape[1], dtype=like.dtype, device=like.device)
            if old is not None:
                store[: len(old)] = old
        self._vectors = store
        return store


def _index(rows: Sequence[int], device: torch.device) -> Tensor:
    return torch.tensor(rows, dtype=torch.int64).to(device, non_blocking=True)
