"""AllenNLP's character ids: sentences to ids, and the ids as an alphabet of the network."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.inference.encoder import refuse_texts
from elmo_model.text.alphabets import Utf8Alphabet
from elmo_model.text.alphabets.utf8 import PAD


def batch_to_ids(batch: Sequence[Sequence[str]]) -> Tensor:
    """Map sentences, lists of tokens, to character ids (batch, longest, 50), int64; 0 is padding.

    Sentences without any token give (batch, 0). Raises ValueError for no sentence, and for a
    sentence that is a string.
    """
    refuse_texts(batch)
    if not batch:
        raise ValueError("there is no sentence, expected one or more lists of tokens")
    alphabet, longest = Utf8Alphabet(), max(map(len, batch))
    if not longest:
        return torch.zeros(len(batch), 0, dtype=torch.int64)
    ids = np.zeros((len(batch), longest, alphabet.max_characters), dtype=np.int64)
    for row, sentence in zip(ids, batch, strict=True):
        row[: len(sentence)] = alphabet.encode(sentence, alphabet.max_characters)
    return torch.from_numpy(ids)


@dataclass(frozen=True, slots=True)
class CharacterIds:
    """An alphabet whose words are rows of ids, each id a character.

    A word that was cut inside a character has no other form. The code point is id + 1, so that no
    row has a NUL, which NumPy strips; the padding at the end of a row is left out.
    """

    max_characters: int
    size: int = Utf8Alphabet.size

    @property
    def begin(self) -> str:
        return self._word(Utf8Alphabet.begin)

    @property
    def end(self) -> str:
        return self._word(Utf8Alphabet.end)

    @staticmethod
    def words(ids: NDArray[np.int64]) -> list[str]:
        """Map (N, C) ids to N words."""
        shifted = np.ascontiguousarray(ids + 1, dtype=np.uint32)
        rows: list[str] = shifted.view(f"U{ids.shape[1]}")[:, 0].tolist()
        return [row.rstrip(chr(PAD + 1)) for row in rows]

    def lengths(self, words: Sequence[str]) -> list[int]:
        return [len(word) for word in words]

    def encode(self, words: Sequence[str], width: int) -> NDArray[np.int64]:
        rows = np.array(words, dtype=f"U{width}").view(np.uint32).reshape(len(words), width)
        return np.where(rows == 0, PAD, rows.astype(np.int64) - 1)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "ids", "max_characters": self.max_characters}

    def _word(self, boundary: str) -> str:
        alphabet = Utf8Alphabet(self.max_characters)
        return self.words(alphabet.encode([boundary], self.max_characters))[0]
