"""The look-up of tokens in a store of word vectors, which processes share through the page cache.

vectors.f32    float32 (N, width), row by row as in the file
words.bin      the UTF-8 of all words, without separators; `ends.npy` has the end of each
hashes.npy     uint64 (N,), sorted; `rows.npy` has the word of each hash
matrix.npy     fastText alone: rows of the words, then of the n-grams
map.json       version, name of the file, format, words, width, revision, n-grams

A store of version 1 has `vectors.npy` in place of `vectors.f32`.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from elmo_model.files.arrays import WordList
from elmo_model.word_vectors.fasttext import Subwords
from elmo_model.word_vectors.formats import WordVectorsError

VERSION: Final = 2
"""Version of the layout that is written; `WordVectors.open` reads older ones as well."""

FACTS: Final = "map.json"
"""The file that makes a folder a store: the last one that is written."""

VECTORS: Final = "vectors.f32"

_MAX_SUBWORD_BYTES: Final = 1_024
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

    `vectors` is (N, width), both in the order of the file.
    """

    info: WordVectorsInfo
    vectors: NDArray[np.float32]
    words: WordList
    _hashes: NDArray[np.uint64]
    _rows: NDArray[np.int64]
    _subwords: Subwords | None

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the store of a folder. Raises WordVectorsError for another folder or version."""
        try:
            facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
            if (version := facts.pop("version")) not in (1, VERSION):
                raise ValueError("it is of another version")
            ngrams = facts.pop("ngrams")
            info = WordVectorsInfo(**facts)
            if version == 1:
                vectors = np.load(folder / "vectors.npy", mmap_mode="r")
            else:
                shape = info.words, info.dimension
                vectors = np.memmap(folder / VECTORS, "<f4", "r", shape=shape)
            return cls(
                info,
                np.asarray(vectors),  # over the same memory; faster in small parts
                WordList.open(folder / "words.bin", folder / "ends.npy"),
                np.load(folder / "hashes.npy", mmap_mode="r"),
                np.load(folder / "rows.npy", mmap_mode="r"),
                None if ngrams is None else _subwords(folder, info, ngrams),
            )
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            raise WordVectorsError(f"{folder}: is no map of word vectors: {error}") from error

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
            if self._subwords is None or len(word) > _MAX_SUBWORD_BYTES:
                continue
            if self._subwords.numbers(word):
                vectors[place] = self._subwords.vector(word)
                unknown[place] = False
        number = {token: place for place, token in enumerate(distinct)}
        order = np.array([number[token] for token in tokens], np.int64)
        return vectors[order], unknown[order]

    def _find(self, words: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the row of each word, -1 for a word that the store lacks."""
        wanted = np.array([hash_of(word) for word in words], np.uint64)
        places = np.searchsorted(self._hashes, wanted)
        found = np.full(len(words), -1, np.int64)
        ends = np.searchsorted(self._hashes, wanted, "right")
        for number, word in enumerate(words):
            # Two words may have one hash, and a word may occur twice: the first row counts.
            for row in self._rows[places[number] : ends[number]]:
                if self.words.utf8(int(row)) == word:
                    found[number] = row
                    break
        return found


def hash_of(word: bytes) -> int:
    """Return the 64-bit hash of a word that a store is sorted by."""
    return int.from_bytes(hashlib.blake2b(word, digest_size=8).digest(), "little")


def _subwords(folder: Path, info: WordVectorsInfo, ngrams: Sequence[int]) -> Subwords:
    shortest, longest = ngrams
    matrix = np.load(folder / "matrix.npy", mmap_mode="r")
    return Subwords(matrix[info.words :], shortest, longest)


def _utf8(token: str) -> bytes:
    return token.encode("utf-8", "surrogatepass")
