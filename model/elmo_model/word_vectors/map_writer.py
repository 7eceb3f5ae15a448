"""Writes a map of word vectors: a folder of arrays that processes share through the page cache.

vectors.npy    float32 (N, width), row by row as in the file
words.bin      the UTF-8 of all words, without separators; `ends.npy` has the end of each
hashes.npy     uint64 (N,), sorted; `rows.npy` has the word of each hash
matrix.npy     fastText alone: rows of the words, then of the n-grams
map.json       version, name of the file, format, words, width, revision, n-grams
"""

import hashlib
import json
from array import array
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from elmo_model.files.arrays import mapped_array
from elmo_model.word_vectors.source import WordVectorsError
from elmo_model.word_vectors.subwords import Subwords

VERSION = 1
"""Version of the layout: a map of another version is written anew."""

_ROWS = 4_096  # rows that are copied at once

Vectors = NDArray[np.float32]


class MapWriter:
    """Takes words one by one; `finish` writes the index of them. A context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._hashes, self._ends = array("Q"), array("Q")
        self._end = self._width = 0
        self._digest = hashlib.sha256()
        self._subwords: Subwords | None = None
        self._words = (folder / "words.bin").open("wb")
        self._vectors = (folder / "vectors.f32").open("wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._words.close()
        finally:  # on a full disk both raise OSError
            self._vectors.close()

    def __len__(self) -> int:
        return len(self._hashes)

    def add(self, word: bytes, vector: Vectors) -> None:
        """Add a word and its vector; all vectors have the width of the first."""
        data = vector.astype("<f4", copy=False).tobytes()
        self._width = vector.size
        self._digest.update(word + b"\n" + data)
        self._words.write(word)
        self._vectors.write(data)
        self._end += len(word)
        self._ends.append(self._end)
        self._hashes.append(hash_of(word))

    def room(self, name: str, shape: tuple[int, int]) -> Vectors:
        """Return a float32 array of this shape that lies in a file of the map. Raises OSError."""
        return mapped_array(self._folder / name, shape, np.float32)

    def keep(self, subwords: Subwords) -> None:
        """Keep the subwords, whose rows are the last ones of `matrix.npy`."""
        self._subwords = subwords
        for start in range(0, len(subwords.rows), _ROWS):
            self._digest.update(subwords.rows[start : start + _ROWS].tobytes())

    def finish(self, name: str, form: str) -> None:
        """Write the index; `name` is the name of the file. Raises WordVectorsError for no word."""
        if not len(self):
            raise WordVectorsError(f"{name}: holds no word")
        self._words.close()
        self._vectors.close()
        hashes = np.frombuffer(self._hashes, np.uint64)
        order = np.argsort(hashes, kind="stable")  # of a repeated word the first row counts
        for file, values in (("hashes", hashes[order]), ("rows", order), ("ends", self._ends)):
            np.save(self._folder / f"{file}.npy", np.asarray(values))
        self._write_vectors()
        subwords = self._subwords
        facts = {
            "version": VERSION,
            "file": name,
            "format": form,
            "words": len(self),
            "dimension": self._width,
            "revision": self._digest.hexdigest()[:12],
            "ngrams": None if subwords is None else [subwords.shortest, subwords.longest],
        }
        (self._folder / "map.json").write_text(json.dumps(facts), encoding="utf-8")

    def _write_vectors(self) -> None:
        """Put the header of an .npy file before the vectors, whose number is known only now."""
        raw = self._folder / "vectors.f32"
        shape = len(self), self._width
        vectors = mapped_array(self._folder / "vectors.npy", shape, np.float32)
        vectors[:] = np.memmap(raw, "<f4", "r", shape=shape)
        vectors.flush()
        raw.unlink()


def hash_of(word: bytes) -> int:
    """Return the 64-bit hash of a word that the map is sorted by."""
    return int.from_bytes(hashlib.blake2b(word, digest_size=8).digest(), "little")
