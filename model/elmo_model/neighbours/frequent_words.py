"""The most frequent words of an index, by the context-free token layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmo_model.neighbours.part import Part
from elmo_model.neighbours.search import Numbers, Search

MOST_WORDS: Final = 100_000
"""Words that are searched by their token layer: of a million tokens these are all. More words take
more memory and a longer search; rarer words are misspellings and names."""


@dataclass(frozen=True, slots=True, eq=False)
class FrequentWords:
    """Words by their number in the index, the most frequent first, and a search."""

    numbers: NDArray[np.uint32]
    search: Search

    def nearest(self, query: NDArray[np.float32], count: int) -> Numbers:
        """Map a vector (2P,) to the numbers of the `count` nearest words, nearest first."""
        rows, _ = self.search.nearest(query, count)
        return self.numbers[rows].astype(np.int64)


def most_frequent(parts: Sequence[Part], count: int = MOST_WORDS) -> NDArray[np.uint32]:
    """Return the numbers of the most frequent words, the most frequent first, ties by number."""
    words = sum(len(part.words) for part in parts)
    counts = np.zeros(words, np.int64)
    for part in parts:
        counts += np.bincount(part.token_words, minlength=words)
    return np.argsort(-counts, kind="stable")[:count].astype(np.uint32)
