"""fastText's binary format (`.bin`): words, and subwords for words that it has never seen.

The source is `FastText::loadModel`, `Args::load`, `Dictionary::load` and `DenseMatrix::load` of
fastText 0.9.2. Subwords are the n-grams of a word, hashed into buckets (Bojanowski et al. 2017).
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmo_model.word_vectors.formats import Source, Words, WordVectorsError, check_width

MAGIC: Final = struct.pack("<i", 793712314)

END_OF_SENTENCE = b"</s>"
"""A word of every fastText model that has no subwords."""

_FNV_OFFSET, _FNV_PRIME, _MASK = 2166136261, 16777619, 0xFFFFFFFF
_CONTINUES, _TOP_BITS = 0x80, 0xC0  # a byte of UTF-8 that continues a character
_VERSIONS: Final = (11, 12)
_SUPERVISED: Final = 3
_MAX_WORD_BYTES: Final = 100_000
_ROWS: Final = 4_096  # rows of the matrix that are read at once

AllocateMatrix = Callable[[tuple[int, int]], NDArray[np.float32]]
"""Allocates the matrix of a shape, in a file."""


@dataclass(frozen=True, slots=True)
class Subwords:
    """The rows of the n-grams: (buckets, width), for n-grams of `shortest` to `longest` characters.

    Two n-grams of one hash share a row.
    """

    rows: NDArray[np.float32]
    shortest: int
    longest: int

    def numbers(self, word: bytes) -> list[int]:
        """Return the rows of the n-grams of a word of UTF-8, as fastText's `computeSubwords`."""
        if word == END_OF_SENTENCE or not len(self.rows):
            return []
        text = b"<" + word + b">"
        starts = [place for place, byte in enumerate(text) if byte & _TOP_BITS != _CONTINUES]
        starts.append(len(text))
        count = len(starts) - 1
        found = []
        for first in range(count):
            code = _FNV_OFFSET
            for length in range(1, min(self.longest, count - first) + 1):
                end = first + length
                for byte in text[starts[end - 1] : starts[end]]:
                    # fastText hashes signed bytes: one above 127 sets the upper 24 bits as well.
                    code = (
                        (code ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * _FNV_PRIME
                    ) & _MASK
                if length >= self.shortest and not (length == 1 and (first == 0 or end == count)):
                    found.append(code % len(self.rows))
        return found

    def vector(self, word: bytes, own: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return the mean (width,) of the rows of a word, and of its `own` row where it has one.

        Zeros where there is no row. Sums and scales in float32, in fastText's order.
        """
        rows = self.rows[self.numbers(word)]
        if own is not None:
            rows = np.concatenate([own[None], rows])
        if not len(rows):
            return np.zeros(self.rows.shape[1], np.float32)
        mean: NDArray[np.float32] = np.add.reduce(rows, axis=0) * np.float32(1.0 / len(rows))
        return mean


def read_fasttext(source: Source, allocate: AllocateMatrix) -> tuple[Words, Subwords | None]:
    """Return the words of a model, and its subwords; None for a model without any.

    The vector of a word is the mean of its own row and those of its n-grams, as in the `.vec` file
    and as fastText's `get_word_vector` gives it. Raises WordVectorsError for a quantised or pruned
    model, and for a file that ends too early.
    """
    width, buckets, shortest, longest = _header(source)
    words = _words(source)
    if source.exactly(1, "the header of the matrix") != b"\0":
        raise WordVectorsError(
            f"{source.path}: is quantised, expected a model as fastText trains it (.bin)"
        )
    rows, columns = struct.unpack("<2q", source.exactly(16, "the header of the matrix"))
    if columns != width or rows < len(words) + buckets:
        raise WordVectorsError(
            f"{source.path}: its matrix is {rows} x {columns}, expected {len(words) + buckets} x "
            f"{width}"
        )
    matrix = allocate((len(words) + buckets, width))
    for start in range(0, len(matrix), _ROWS):
        part = matrix[start : start + _ROWS]
        part[:] = np.frombuffer(source.exactly(part.nbytes, "the matrix"), "<f4").reshape(
            part.shape
        )
    own, grams = matrix[: len(words)], matrix[len(words) :]
    subwords = Subwords(grams, shortest, longest)
    vectors = ((word, subwords.vector(word, row)) for word, row in zip(words, own, strict=True))
    return vectors, subwords if buckets else None


def _header(source: Source) -> tuple[int, int, int, int]:
    """Read the header; return the width, the buckets, and the shortest and the longest n-gram."""
    version, *args = struct.unpack("<i12id", source.exactly(4 + 60, "the header")[4:])
    if version not in _VERSIONS:
        raise WordVectorsError(f"{source.path}: is of fastText's version {version}, expected 12")
    width, model, buckets, shortest, longest = args[0], args[7], args[8], args[9], args[10]
    if version == _VERSIONS[0] and model == _SUPERVISED:
        longest = 0  # such models were trained without n-grams of characters
    check_width(source.path, width)
    if buckets < 0:
        raise WordVectorsError(f"{source.path}: has {buckets} buckets, expected 0 or more")
    return width, buckets if longest else 0, shortest, longest


def _words(source: Source) -> list[bytes]:
    """Read the dictionary; return its words without its labels, which follow them."""
    size, words, _, _, pruned = struct.unpack("<3i2q", source.exactly(28, "the dictionary"))
    if pruned >= 0:
        raise WordVectorsError(f"{source.path}: is pruned, expected a model as fastText trains it")
    if not 0 <= words <= size:
        raise WordVectorsError(f"{source.path}: its dictionary says {words} words of {size}")
    found = []
    for number in range(1, size + 1):
        found.append(source.until(b"\0", _MAX_WORD_BYTES, f"word {number:,} of {size:,}"))
        source.exactly(9, "the dictionary")  # its count, and whether it is a label
    return found[:words]
