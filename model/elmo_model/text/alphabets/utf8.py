"""The alphabet of bilm-tf and AllenNLP: UTF-8 bytes and five marks.

Traps:

- All ids are shifted by one: byte b has id b + 1, and id 0 means "no token". The published
  character table therefore lacks row 0 (see `checkpoints/bilm_layout.py`).
- A word is cut at 48 UTF-8 bytes, not characters; a cut inside a character is left as it is.
- A word is padded with id 261, whose vector is not zero: the convolutions see it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from elmo_model.text.alphabets.vocabulary import BEGIN, END
from elmo_model.validation import CharacterLimit

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PAD = 257, 258, 259, 260, 261


@dataclass(frozen=True, slots=True)
class Utf8Alphabet:
    """Words as at most `max_characters` ids, two of them marks (bilm-tf `UnicodeCharsVocabulary`).

    The words `<S>` and `</S>` are the boundaries of a sentence, also in the text of a user. No
    other word is special: `<UNK>` is five characters, `<s>` three.
    """

    kind: ClassVar[str] = "utf8"
    begin: ClassVar[str] = BEGIN
    end: ClassVar[str] = END
    size: ClassVar[int] = 262

    max_characters: CharacterLimit = 50

    def lengths(self, words: Sequence[str]) -> list[int]:
        """Return the number of ids of each word without padding: its bytes and two marks."""
        return [len(self._body(word)) + 2 for word in words]

    def encode(self, words: Sequence[str], width: int) -> NDArray[np.int64]:
        """Map N words to (N, width) ids; `width` is from the longest of `lengths` to C."""
        ids = np.full((len(words), width), PAD, dtype=np.int64)
        ids[:, 0] = BEGIN_WORD
        for row, word in zip(ids, words, strict=True):
            if word == self.begin:
                row[1], end = BEGIN_SENTENCE, 2
            elif word == self.end:
                row[1], end = END_SENTENCE, 2
            else:
                body = self._body(word)
                end = len(body) + 1
                row[1:end] = np.frombuffer(body, dtype=np.uint8)
                row[1:end] += 1
            row[end] = END_WORD
        return ids

    def to_dict(self) -> dict[str, Any]:
        """Return the description as JSON values."""
        return {"kind": self.kind, "max_characters": self.max_characters}

    def _body(self, word: str) -> bytes:
        """Return the bytes of a word between its marks."""
        if word in (self.begin, self.end):
            return b"\0"  # a placeholder of one byte for the mark
        # UTF-8 cannot encode lone surrogates; they are dropped.
        return word.encode("utf-8", "ignore")[: self.max_characters - 2]
