"""Where each word is among the tokens of a part."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from elmo_model.neighbours.search import Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """The tokens of W different words, N in all.

    words: uint32 (W,), the numbers of the words, which ascend.
    starts: uint32 (W + 1,), where the tokens of each word start in `tokens`, and N.
    tokens: uint32 (N,), the tokens of the first word, then those of the second one; each ascend.
    """

    words: NDArray[np.uint32]
    starts: NDArray[np.uint32]
    tokens: NDArray[np.uint32]

    @classmethod
    def of(cls, token_words: NDArray[np.uint32]) -> Self:
        """Return the postings of tokens, given the number of each one's word, (N,)."""
        words, counts = np.unique(token_words, return_counts=True)
        tokens = np.argsort(token_words, kind="stable")
        starts = np.concatenate([[0], np.cumsum(counts)])
        return cls(words, starts.astype(np.uint32), tokens.astype(np.uint32))

    def ranges(self, words: Numbers) -> tuple[Numbers, Numbers]:
        """Return where the tokens of words (n,) start and end in `tokens`, (n,) each.

        A word that is not there has an empty range.
        """
        rows = np.searchsorted(self.words, words.astype(np.uint32))
        is_there = rows < len(self.words)
        is_there[is_there] = self.words[rows[is_there]] == words[is_there]
        rows = np.where(is_there, rows, 0)
        starts, ends = self.starts[rows], self.starts[rows + is_there]
        return starts.astype(np.int64), ends.astype(np.int64)
