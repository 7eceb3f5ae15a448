"""What every alphabet does."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


class AlphabetError(ValueError):
    """A description that no alphabet answers to; the message names the key and what is known."""


class Alphabet(Protocol):
    """Words to character ids. `begin` and `end` are the words that bound a sentence."""

    @property
    def begin(self) -> str: ...

    @property
    def end(self) -> str: ...

    @property
    def size(self) -> int:
        """Rows that a table of characters needs, the row of id 0 included."""

    @property
    def max_characters(self) -> int:
        """C, ids of the longest word, its marks included."""

    def lengths(self, words: Sequence[str]) -> list[int]:
        """Return the ids of each word that are not padding."""

    def encode(self, words: Sequence[str], width: int) -> NDArray[np.int64]:
        """Map words to (words, width) ids; every width from the longest word to C is exact."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON knows them, that `from_dict` reads again."""


@runtime_checkable
class WordAlphabet(Alphabet, Protocol):
    """An alphabet that knows whole words too. Without characters `size` is 0."""

    @property
    def word_count(self) -> int:
        """Rows that a table of words needs; 0 where whole words are not looked up."""

    def word_ids(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Map words to (words,) rows of the table; one that is not known has the row for that."""
