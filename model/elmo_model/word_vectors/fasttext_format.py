"""fastText's binary format (`.bin`): words, and subwords for words that it has never seen.

The source is `FastText::loadModel`, `Args::load`, `Dictionary::load` and `DenseMatrix::load` of
fastText 0.9.2.
"""

import struct

import numpy as np

from elmo_model.word_vectors.map_writer import MapWriter
from elmo_model.word_vectors.source import Source, WordVectorsError, check_width
from elmo_model.word_vectors.subwords import Subwords

MAGIC = struct.pack("<i", 793712314)

_VERSIONS = (11, 12)
_SUPERVISED = 3
_MOST_WORD_BYTES = 100_000
_ROWS = 4_096  # rows of the matrix that are read at once


def read_fasttext(source: Source, writer: MapWriter) -> None:
    """Add every word of a model to a map, and its subwords.

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
    matrix = writer.room("matrix.npy", (len(words) + buckets, width))
    for start in range(0, len(matrix), _ROWS):
        part = matrix[start : start + _ROWS]
        part[:] = np.frombuffer(source.exactly(part.nbytes, "the matrix"), "<f4").reshape(
            part.shape
        )
    own, grams = matrix[: len(words)], matrix[len(words) :]
    subwords = Subwords(grams, shortest, longest)
    for word, row in zip(words, own, strict=True):
        writer.add(word, subwords.vector(word, row))
    if buckets:
        writer.keep(subwords)


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
        found.append(source.until(b"\0", _MOST_WORD_BYTES, f"word {number:,} of {size:,}"))
        source.exactly(9, "the dictionary")  # its count, and whether it is a label
    return found[:words]
