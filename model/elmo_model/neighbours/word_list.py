"""A list of words as two arrays, which can be memory-mapped."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class WordList:
    """N words: `text` has the UTF-8 of all of them, `ends` (N,) the end of each in bytes."""

    text: NDArray[np.uint8]
    ends: NDArray[np.uint64]

    @classmethod
    def of(cls, words: Sequence[str]) -> Self:
        """Return the list of some words."""
        # A word of JSON may hold a lone surrogate.
        encoded = [word.encode("utf-8", "surrogatepass") for word in words]
        ends = np.cumsum([len(word) for word in encoded], dtype=np.uint64)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: int) -> str:
        start = int(self.ends[number - 1]) if number else 0
        return self.text[start : int(self.ends[number])].tobytes().decode("utf-8", "surrogatepass")
