"""The vocabulary of bilm-tf: whole words by their line, for models that read no characters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from elmo_model.alphabets.alphabet import AlphabetError

_UNKNOWN = "<UNK>"


@dataclass(frozen=True)
class WordVocabulary:
    """Words to rows of a word table: `words` in the order of its rows (bilm-tf `data.py`).

    A word that is not there has the row of `<UNK>`. Of a word that stands twice the later
    row counts. `<S>` and `</S>`, a sentence's ends, are rows too, also when a user writes them.
    """

    kind: ClassVar[str] = "vocabulary"
    begin: ClassVar[str] = "<S>"
    end: ClassVar[str] = "</S>"
    size: ClassVar[int] = 0  # no characters
    max_characters: ClassVar[int] = 0

    words: Sequence[str]
    _rows: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rows = {word: row for row, word in enumerate(self.words)}
        for word in (self.begin, self.end, _UNKNOWN):
            # bilm-tf would take row -1 or, shifted, padding, which shortens the sentence
            if word not in rows:
                raise AlphabetError(f"vocabulary lacks {word}, expected a row for it")
        object.__setattr__(self, "_rows", rows)

    @property
    def word_count(self) -> int:
        """Rows that a table of words needs."""
        return len(self.words)

    def lengths(self, words: Sequence[str]) -> list[int]:
        """Return 0 for each word: it has no characters here."""
        return [0] * len(words)

    def encode(self, words: Sequence[str], width: int) -> NDArray[np.int64]:
        """Map words to (words, width) ids, all 0: there is nothing to spell with."""
        return np.zeros((len(words), width), dtype=np.int64)

    def word_ids(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Map words to (words,) rows of the word table, unknown ones to that of `<UNK>`."""
        rows, unknown = self._rows, self._rows[_UNKNOWN]
        return np.array([rows.get(word, unknown) for word in words], dtype=np.int64)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads again."""
        return {"kind": self.kind, "words": list(self.words)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote. Raises AlphabetError for anything else."""
        words = values.get("words")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise AlphabetError(f"alphabet words is {words!r:.80}, expected a list of words")
        return cls(tuple(words))
