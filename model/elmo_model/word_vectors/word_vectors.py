"""Word vectors of a map: the look-up of tokens."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from elmo_model.word_vectors.map_writer import VERSION, hash_of
from elmo_model.word_vectors.source import WordVectorsError
from elmo_model.word_vectors.subwords import Subwords

_LONGEST = 1_024
"""Bytes of the longest word whose vector is made of subwords. The time and the memory for it are in
proportion to its bytes: with a larger number one token can keep a worker busy for seconds."""


@dataclass(frozen=True, slots=True)
class WordVectorsInfo:
    """The description of word vectors: `file` is its name, `revision` a short SHA-256 of it."""

    file: str
    format: str
    revision: str
    words: int
    dimension: int


@dataclass(frozen=True, slots=True, eq=False)
class WordVectors:
    """N words and their vectors, memory-mapped: all processes of a machine share one copy.

    `vectors` is (N, width) in the order of the file.
    """

    info: WordVectorsInfo
    vectors: NDArray[np.float32]
    _hashes: NDArray[np.uint64]
    _rows: NDArray[np.int64]
    _words: NDArray[np.uint8]
    _ends: NDArray[np.uint64]
    _subwords: Subwords | None

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the map of a folder. Raises WordVectorsError for another folder or version."""
        try:
            facts = json.loads((folder / "map.json").read_text(encoding="utf-8"))
            if facts.pop("version") != VERSION:
                raise ValueError("it is of another version")
            ngrams = facts.pop("ngrams")
            info = WordVectorsInfo(**facts)
            arrays = [
                np.load(folder / f"{name}.npy", mmap_mode="r")
                for name in ("vectors", "hashes", "rows", "ends")
            ]
            vectors, hashes, rows, ends = arrays
            words = np.empty(0, np.uint8)
            if ends[-1]:  # an empty file, of one empty word, cannot be mapped
                words = np.memmap(folder / "words.bin", np.uint8, "r")
            subwords = None
            if ngrams is not None:
                matrix = np.load(folder / "matrix.npy", mmap_mode="r")
                subwords = Subwords(matrix[info.words :], *ngrams)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WordVectorsError(f"{folder}: is no map of word vectors: {error}") from error
        return cls(info, vectors, hashes, rows, words, ends, subwords)

    @property
    def dimension(self) -> int:
        """The width of a vector."""
        return self.info.dimension

    def look_up(self, tokens: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Map n tokens to their vectors (n, width), and tell which are unknown (n,).

        The exact word, then its lower case, then fastText's subwords for words of up to 1,024
        bytes; the vector of an unknown token is zeros.
        """
        distinct = list(dict.fromkeys(tokens))
        exact = self._find([_utf8(token) for token in distinct])
        lower = self._find([_utf8(token.lower()) for token in distinct])
        rows = np.where(exact >= 0, exact, lower)
        vectors = self.vectors[np.maximum(rows, 0)]
        unknown = rows < 0
        for place in np.flatnonzero(unknown):
            word = _utf8(distinct[place])
            vectors[place] = 0
            if self._subwords is None or len(word) > _LONGEST:
                continue
            if self._subwords.numbers(word):
                vectors[place] = self._subwords.vector(word)
                unknown[place] = False
        number = {token: place for place, token in enumerate(distinct)}
        order = np.array([number[token] for token in tokens], np.int64)
        return vectors[order], unknown[order]

    def _find(self, words: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the row of each word, -1 for a word that the map lacks."""
        wanted = np.array([hash_of(word) for word in words], np.uint64)
        places = np.searchsorted(self._hashes, wanted)
        found = np.full(len(words), -1, np.int64)
        ends = np.searchsorted(self._hashes, wanted, "right")
        for number, word in enumerate(words):
            # Two words may have one hash, and a word may occur twice: the first row counts.
            for row in self._rows[places[number] : ends[number]]:
                if self.word(int(row)) == word:
                    found[number] = row
                    break
        return found

    def word(self, row: int) -> bytes:
        """Return the UTF-8 of the word of a row."""
        start = int(self._ends[row - 1]) if row else 0
        return self._words[start : int(self._ends[row])].tobytes()


def _utf8(token: str) -> bytes:
    return token.encode("utf-8", "surrogatepass")
