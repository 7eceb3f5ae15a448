"""The vocabulary of bilm-tf: whole words, for models without character input."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from elmo_model.text.alphabets.alphabet import AlphabetError

BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"


@dataclass(frozen=True)
class WordVocabulary:
    """Words as rows of a word table; `words` are in the order of the rows (bilm-tf `data.py`).

    An unknown word gets the row of `<UNK>`. The last of two equal words counts. `<S>` and `</S>`
    are the boundaries of a sentence, also in the text of a user.
    """

    kind: ClassVar[str] = "vocabulary"
    begin: ClassVar[str] = BEGIN
    end: ClassVar[str] = END
    size: ClassVar[int] = 0  # no characters
    max_characters: ClassVar[int] = 0

    words: tuple[str, ...]
    _rows: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rows = {word: row for row, word in enumerate(self.words)}
        needed = (self.begin, self.end, UNKNOWN)
        # Without them bilm-tf would use row -1, or after its shift the padding of a batch.
        if missing := [word for word in needed if word not in rows]:
            raise AlphabetError(
                f"vocabulary lacks {', '.join(missing)}; expected rows for {', '.join(needed)}"
            )
        object.__setattr__(self, "_rows", rows)

    @property
    def word_count(self) -> int:
        """Rows of the word table."""
        return len(self.words)

    def lengths(self, words: Sequence[str]) -> list[int]:
        """Return 0 for each word: it has no characters."""
        return [0] * len(words)

    def encode(self, words: Sequence[str], width: int) -> NDArray[np.int64]:
        """Map N words to (N, width) ids, all 0."""
        return np.zeros((len(words), width), dtype=np.int64)

    def word_ids(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Map N words to (N,) rows of the word table; unknown words get the row of `<UNK>`."""
        rows, unknown = self._rows, self._rows[UNKNOWN]
        return np.array([rows.get(word, unknown) for word in words], dtype=np.int64)

    def to_dict(self) -> dict[str, Any]:
        """Return the description as JSON values."""
        return {"kind": self.kind, "words": list(self.words)}
