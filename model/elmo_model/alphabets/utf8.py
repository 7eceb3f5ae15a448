"""The alphabet of bilm-tf and AllenNLP: UTF-8 bytes and five marks, all shifted by one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from elmo_model.alphabets.alphabet import AlphabetError

# Shifted by one: id 0 says "no token here", and a byte b has the id b + 1.
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PAD = 257, 258, 259, 260, 261


@dataclass(frozen=True, slots=True)
class Utf8Alphabet:
    """Words to rows of at most `max_characters` ids (bilm-tf `data.py`, UnicodeCharsVocabulary).

    The words `<S>` and `</S>` are the marks of a sentence's ends, also when a user writes them;
    nothing else is special: `<UNK>` is five characters, `<s>` three.
    """

    kind: ClassVar[str] = "utf8"
    begin: ClassVar[str] = "<S>"
    end: ClassVar[str] = "</S>"
    size: ClassVar[int] = 262

    max_characters: int = 50

    def lengths(self, words: Sequence[str]) -> list[int]:
        """Return the ids of each word that are not padding: its bytes and two marks."""
        return [len(self._body(word)) + 2 for word in words]

    def encode(self, words: Sequence[str], width: int) -> NDArray[np.int64]:
        """Map words to (words, width) ids; `width` from the longest of `lengths` to C."""
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
        """Return plain values that `from_dict` reads again."""
        return {"kind": self.kind, "max_characters": self.max_characters}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote. Raises AlphabetError for anything else."""
        limit = values.get("max_characters")
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 3:
            raise AlphabetError(
                f"alphabet max_characters is {limit!r:.80}, expected a whole number of at least 3"
            )
        return cls(limit)

    def _body(self, word: str) -> bytes:
        if word in (self.begin, self.end):
            return b"\0"  # one mark instead of the word's bytes
        # Cut at 48 bytes, not characters: a cut through a character is not repaired. Lone
        # surrogates, which UTF-8 cannot say, are dropped.
        return word.encode("utf-8", "ignore")[: self.max_characters - 2]
