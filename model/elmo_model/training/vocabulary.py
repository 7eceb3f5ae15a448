"""The words that a biLM predicts, in descending order of frequency."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from elmo_model.checkpoints.source import in_folder
from elmo_model.checkpoints.vocabulary_file import SKIPPED, words_of
from elmo_model.errors import shown
from elmo_model.files.atomic import write_bytes
from elmo_model.text.alphabets import AlphabetError, WordVocabulary
from elmo_model.text.alphabets.vocabulary import BEGIN, END, UNKNOWN

_SPECIAL = (BEGIN, END, UNKNOWN)


@dataclass(frozen=True)
class Vocabulary(WordVocabulary):
    """Words in descending order of frequency, among them `<S>`, `</S>` and `<UNK>`.

    The order matters: the sampled softmax derives a word's probability from its rank (log-uniform
    distribution). A word outside of the vocabulary is predicted as `<UNK>`; as input it keeps its
    characters.
    """

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def of(cls, counts: Iterable[tuple[str, int]], size: int) -> Self:
        """Return the `size` most frequent words, special words included; ties go by spelling.

        A word that no vocabulary file can hold is left out.
        """
        if size < len(_SPECIAL):
            raise AlphabetError(f"vocabulary size is {size}, expected {len(_SPECIAL)} or more")
        ordinary = (pair for pair in counts if pair[0] not in (*_SPECIAL, SKIPPED))
        ranked = sorted(ordinary, key=lambda pair: (-pair[1], pair[0]))
        return cls((*_SPECIAL, *(word for word, _ in ranked[: size - len(_SPECIAL)])))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a vocabulary file, plain or gzipped. Raises CheckpointError and AlphabetError."""
        words = tuple(words_of(in_folder(path.parent, [path.name]), path.name))
        if len(set(words)) < len(words):
            twice = next(word for word, count in Counter(words).items() if count > 1)
            raise AlphabetError(f"{path}: holds {shown(twice)} twice, expected each word once")
        try:
            return cls(words)
        except AlphabetError as error:
            raise AlphabetError(f"{path}: {error}") from error

    def write(self, path: Path) -> None:
        """Write one word per line, atomically."""
        write_bytes(path, "".join(f"{word}\n" for word in self.words).encode())

    def counts(self, words: Sequence[str], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Map the counts of `words` to those of the vocabulary (V,); `<UNK>` has all others."""
        totals = np.zeros(len(self), dtype=np.int64)
        np.add.at(totals, self.word_ids(words), counts)
        return totals
