"""word2vec's binary format: a line with count and width, then each word, a space, and float32."""

import numpy as np

from elmo_model.word_vectors.map_writer import MapWriter
from elmo_model.word_vectors.source import Source, WordVectorsError, check_width
from elmo_model.word_vectors.text_format import HEADER

_MOST_WORD_BYTES = 10_000
"""Longest word that is read: a longer one means that the file has another format."""

_LINE_BYTES = 100


def read_word2vec(source: Source, writer: MapWriter) -> None:
    """Add every word of a file to a map. Raises WordVectorsError, which names the word's number."""
    line = source.until(b"\n", _LINE_BYTES, "the first line")
    header = HEADER.fullmatch(line)
    if header is None:
        raise WordVectorsError(f"{source.path}:1: found {line!r:.40}, expected count and width")
    count, width = int(header[1]), int(header[2])
    check_width(f"{source.path}:1", width)
    for number in range(1, count + 1):
        what = f"word {number:,} of {count:,}"
        # word2vec.c ends a vector with a newline; some writers do not.
        word = source.until(b" ", _MOST_WORD_BYTES, what).lstrip(b"\n")
        vector = np.frombuffer(source.exactly(4 * width, f"the vector of {what}"), "<f4")
        if not np.isfinite(vector).all():
            raise WordVectorsError(f"{source.path}: {what}: a number is not finite")
        writer.add(word, vector)
    if rest := source.peek(2).lstrip(b"\n"):
        raise WordVectorsError(
            f"{source.path}: holds {rest!r} behind its {count:,} words of width {width}, which "
            "its first line announces"
        )
