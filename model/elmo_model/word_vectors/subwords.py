"""fastText's subwords: the n-grams of a word, hashed into buckets (Bojanowski et al. 2017)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

END_OF_SENTENCE = b"</s>"
"""A word of every fastText model that has no subwords."""

_FNV_OFFSET, _FNV_PRIME, _MASK = 2166136261, 16777619, 0xFFFFFFFF
_CONTINUES, _TOP_BITS = 0x80, 0xC0  # a byte of UTF-8 that continues a character


@dataclass(frozen=True, slots=True)
class Subwords:
    """The rows of the n-grams: (buckets, width), for n-grams of `shortest` to `longest` characters.

    Two n-grams of one hash share a row.
    """

    rows: NDArray[np.float32]
    shortest: int
    longest: int

    def numbers(self, word: bytes) -> list[int]:
        """Return the rows of the n-grams of a word of UTF-8, as fastText's `computeSubwords`."""
        if word == END_OF_SENTENCE or not len(self.rows):
            return []
        text = b"<" + word + b">"
        starts = [place for place, byte in enumerate(text) if byte & _TOP_BITS != _CONTINUES]
        starts.append(len(text))
        count = len(starts) - 1
        found = []
        for first in range(count):
            code = _FNV_OFFSET
            for length in range(1, min(self.longest, count - first) + 1):
                end = first + length
                for byte in text[starts[end - 1] : starts[end]]:
                    # fastText hashes signed bytes: one above 127 sets the upper 24 bits as well.
                    code = (
                        (code ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * _FNV_PRIME
                    ) & _MASK
                if length >= self.shortest and not (length == 1 and (first == 0 or end == count)):
                    found.append(code % len(self.rows))
        return found

    def vector(self, word: bytes, own: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return the mean (width,) of the rows of a word, and of its `own` row where it has one.

        Zeros where there is no row. Sums and scales in float32, in fastText's order.
        """
        rows = self.rows[self.numbers(word)]
        if own is not None:
            rows = np.concatenate([own[None], rows])
        if not len(rows):
            return np.zeros(self.rows.shape[1], np.float32)
        mean: NDArray[np.float32] = np.add.reduce(rows, axis=0) * np.float32(1.0 / len(rows))
        return mean
