"""The alphabet of ELMoForManyLangs: the ids of characters and words in its two dictionaries.

Traps:

- `<bow>` and `<eow>` are swapped by a fault in the tool, with which all released models were
  trained: a word begins with `<eow>` and ends with `<bow>` (`elmo.py`, `create_one_batch`; issue 38
  of the project).
- A word is cut at 48 code points, where `utf8.py` cuts at 48 bytes.
- No id means "no token": id 0 is a character.
- A dictionary line of one column is U+3000 (see `checkpoints/elmoformanylangs.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from elmo_model.text.alphabets.alphabet import AlphabetError
from elmo_model.validation import CharacterLimit

_BEGIN, _END = "<bos>", "<eos>"
_UNKNOWN, _PAD = "<oov>", "<pad>"
_FIRST_MARK, _LAST_MARK = "<eow>", "<bow>"  # swapped, see above

_Ids = dict[str, Annotated[int, Field(strict=True, ge=0)]]


@dataclass(frozen=True)
class Lexicon:
    """Words as ids of characters, of whole words, or of both.

    An empty dictionary means that the model has no such input. Words are cut to
    `max_characters` - 2 code points, for their characters and for the look-up of the whole word.
    `<bos>` and `<eos>`, also in the text of a user, are one character each; other names in angle
    brackets are spelt character by character.
    """

    kind: ClassVar[str] = "lexicon"
    begin: ClassVar[str] = _BEGIN
    end: ClassVar[str] = _END

    characters: _Ids
    words: _Ids
    max_characters: CharacterLimit = 50

    def __post_init__(self) -> None:
        if not self.characters and not self.words:
            raise AlphabetError("alphabet has neither characters nor words, expected at least one")
        needed = {
            "characters": (
                self.characters,
                (_BEGIN, _END, _UNKNOWN, _PAD, _FIRST_MARK, _LAST_MARK),
            ),
            "words": (self.words, (_BEGIN, _END, _UNKNOWN)),
        }
        for name, (ids, keys) in needed.items():
            if ids and (missing := [key for key in keys if key not in ids]):
                raise AlphabetError(f"alphabet {name} lack {missing[0]}, expected an id for it")

    @property
    def size(self) -> int:
        """Rows of the character table; no row means "no token"."""
        return max(self.characters.values(), default=-1) + 1

    @property
    def word_count(self) -> int:
        """Rows of the word table."""
        return max(self.words.values(), default=-1) + 1

    def lengths(self, words: Sequence[str]) -> list[int]:
        """Return the number of ids of each word without padding: its characters and two marks."""
        limit = self.max_characters - 2
        return [2 + (1 if word in (_BEGIN, _END) else min(len(word), limit)) for word in words]

    def encode(self, words: Sequence[str], width: int) -> NDArray[np.int64]:
        """Map N words to (N, width) ids; `width` is from the longest of `lengths` to C."""
        known, unknown = self.characters, self.characters[_UNKNOWN]
        ids = np.full((len(words), width), known[_PAD], dtype=np.int64)
        ids[:, 0] = known[_FIRST_MARK]
        for row, word in zip(ids, words, strict=True):
            body = (word,) if word in (_BEGIN, _END) else word[: self.max_characters - 2]
            end = len(body) + 1
            row[1:end] = [known.get(character, unknown) for character in body]
            row[end] = known[_LAST_MARK]
        return ids

    def word_ids(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Map N words to (N,) rows of the word table; unknown words get the row of `<oov>`."""
        known, unknown, limit = self.words, self.words[_UNKNOWN], self.max_characters - 2
        return np.array([known.get(word[:limit], unknown) for word in words], dtype=np.int64)

    def to_dict(self) -> dict[str, Any]:
        """Return the description as JSON values."""
        return {
            "kind": self.kind,
            "max_characters": self.max_characters,
            "characters": dict(self.characters),
            "words": dict(self.words),
        }
