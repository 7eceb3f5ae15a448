"""The interface of alphabets."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from elmo_model.errors import ElmoError


class AlphabetError(ElmoError):
    """A wrong description of an alphabet. One line: key, found, expected."""


class Alphabet(Protocol):
    """Map words to character ids. `begin` and `end` are the boundary words of a sentence."""

    @property
    def begin(self) -> str: ...

    @property
    def end(self) -> str: ...

    @property
    def size(self) -> int:
        """Rows of the character table, the row of id 0 included."""

    @property
    def max_characters(self) -> int:
        """C, the number of ids of the longest word, with its begin and end marks."""

    def lengths(self, words: Sequence[str]) -> list[int]:
        """Return the number of ids of each word without padding."""

    def encode(self, words: Sequence[str], width: int) -> NDArray[np.int64]:
        """Map N words to (N, width) ids, padded; `width` is from the longest length to C."""

    def to_dict(self) -> dict[str, Any]:
        """Return the description as JSON values, from which `from_dict` restores the alphabet."""


@runtime_checkable
class WordAlphabet(Alphabet, Protocol):
    """An alphabet that also looks up whole words. Without characters its `size` is 0."""

    @property
    def word_count(self) -> int:
        """Rows of the word table; 0 if whole words are not looked up."""

    def word_ids(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Map N words to (N,) rows of the word table; unknown words have a row of their own."""
