"""The alphabet of ELMoForManyLangs: characters and words by the ids of its two dictionaries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from elmo_model.alphabets.alphabet import AlphabetError

_BEGIN, _END = "<bos>", "<eos>"
_UNKNOWN, _PAD = "<oov>", "<pad>"
# Swapped by an old fault with which all released models were trained: a word opens with <eow>
# and closes with <bow> (ELMoForManyLangs `elmo.py`, create_one_batch; its issue 38).
_OPENS, _CLOSES = "<eow>", "<bow>"


@dataclass(frozen=True)
class Lexicon:
    """Words to ids of characters, of whole words, or of both.

    An empty dictionary says that a model has no such input. Words are cut to `max_characters` - 2
    code points, for the characters and for the look-up as a whole word alike. A boundary's name,
    also when a user writes it, is one character of its own; other names in angles are spelt.
    """

    kind: ClassVar[str] = "lexicon"
    begin: ClassVar[str] = _BEGIN
    end: ClassVar[str] = _END

    characters: Mapping[str, int]
    words: Mapping[str, int]
    max_characters: int = 50

    def __post_init__(self) -> None:
        limit = self.max_characters
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 3:
            raise AlphabetError(
                f"alphabet max_characters is {limit!r:.80}, expected a whole number of at least 3"
            )
        if not self.characters and not self.words:
            raise AlphabetError("alphabet has neither characters nor words, expected at least one")
        needed = {
            "characters": (self.characters, (_BEGIN, _END, _UNKNOWN, _PAD, _OPENS, _CLOSES)),
            "words": (self.words, (_BEGIN, _END, _UNKNOWN)),
        }
        for name, (ids, keys) in needed.items():
            if ids and (missing := [key for key in keys if key not in ids]):
                raise AlphabetError(f"alphabet {name} lack {missing[0]}, expected an id for it")

    @property
    def size(self) -> int:
        """Rows that a table of characters needs; there is no row for "no token here"."""
        return max(self.characters.values(), default=-1) + 1

    @property
    def word_count(self) -> int:
        """Rows that a table of words needs."""
        return max(self.words.values(), default=-1) + 1

    def lengths(self, words: Sequence[str]) -> list[int]:
        """Return the ids of each word that are not padding: its characters and two marks."""
        limit = self.max_characters - 2
        return [2 + (1 if word in (_BEGIN, _END) else min(len(word), limit)) for word in words]

    def encode(self, words: Sequence[str], width: int) -> NDArray[np.int64]:
        """Map words to (words, width) ids; `width` from the longest of `lengths` to C."""
        known, unknown = self.characters, self.characters[_UNKNOWN]
        ids = np.full((len(words), width), known[_PAD], dtype=np.int64)
        ids[:, 0] = known[_OPENS]
        for row, word in zip(ids, words, strict=True):
            body = (word,) if word in (_BEGIN, _END) else word[: self.max_characters - 2]
            end = len(body) + 1
            row[1:end] = [known.get(character, unknown) for character in body]
            row[end] = known[_CLOSES]
        return ids

    def word_ids(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Map words to (words,) rows of the word table, unknown ones to that of `<oov>`."""
        known, unknown, limit = self.words, self.words[_UNKNOWN], self.max_characters - 2
        return np.array([known.get(word[:limit], unknown) for word in words], dtype=np.int64)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads again."""
        return {
            "kind": self.kind,
            "max_characters": self.max_characters,
            "characters": dict(self.characters),
            "words": dict(self.words),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote. Raises AlphabetError for anything else."""
        return cls(
            characters=_ids(values, "characters"),
            words=_ids(values, "words"),
            max_characters=values.get("max_characters", 0),
        )


def _ids(values: Mapping[str, Any], name: str) -> dict[str, int]:
    ids = values.get(name)
    if not isinstance(ids, dict):
        raise AlphabetError(f"alphabet {name} is {ids!r:.80}, expected an object of ids")
    for key, number in ids.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise AlphabetError(
                f"alphabet {name} has {number!r:.80} for {key!r:.80}, expected a whole number"
            )
    return ids
