"""The text format of GloVe, word2vec and fastText: a word and its numbers a line.

word2vec and fastText put the number of words and the width in a first line; GloVe does not.
"""

import math
import re
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from elmo_model.word_vectors.map_writer import MapWriter
from elmo_model.word_vectors.source import Source, WordVectorsError, check_width

HEADER = re.compile(rb"([0-9]+) ([0-9]+)[ \r]*\n?")

_ENDS = b" \r\n"


def read_text(source: Source, writer: MapWriter) -> None:
    """Add every word of a file to a map.

    A word may contain spaces, as some of GloVe's do: the last numbers of a line, as many as the
    width, are its vector. Words are split at spaces alone, since they may contain other white
    space. Raises WordVectorsError, which names the line.
    """
    lines = enumerate(source.lines(), 1)
    expected, width, number = None, 0, 0
    for number, line in lines:
        if number == 1 and (header := HEADER.fullmatch(line)):
            expected, width = int(header[1]), int(header[2])
            check_width(f"{source.path}:1", width)
            continue
        fields = line.rstrip(_ENDS).split(b" ")
        width = width or len(fields) - 1
        word, vector = _parsed(fields, width, f"{source.path}:{number}")
        writer.add(word, vector)
        if expected is not None and len(writer) > expected:
            raise WordVectorsError(
                f"{source.path}:{number}: is word {len(writer):,}, and line 1 says {expected:,}"
            )
    if expected is not None and len(writer) < expected:
        raise WordVectorsError(
            f"{source.path}:{number}: the file ends after {len(writer):,} words, and line 1 says "
            f"{expected:,}"
        )


def _parsed(fields: list[bytes], width: int, place: str) -> tuple[bytes, NDArray[np.float32]]:
    # A word of two parts that ends in a number is a line with a number too many.
    surplus = len(fields) > width + 1 and _is_number(fields[-width - 1])
    if width < 1 or len(fields) <= width or surplus:
        found = sum(1 for _ in takewhile(_is_number, reversed(fields[1:])))
        raise WordVectorsError(
            f"{place}: has {found} numbers behind {_shown(fields[0])}, expected "
            f"{width or '1 or more'}"
        )
    word, numbers = b" ".join(fields[:-width]), fields[-width:]
    try:
        values = [float(each) for each in numbers]
    except ValueError:
        bad = next(each for each in numbers if not _is_number(each))
        raise WordVectorsError(
            f"{place}: found {_shown(bad)}, expected {width} numbers behind {_shown(word)}"
        ) from None
    if not all(map(math.isfinite, values)):
        raise WordVectorsError(f"{place}: a number behind {_shown(word)} is not finite")
    return word, np.array(values, np.float32)


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _shown(field: bytes) -> str:
    return f"{field.decode('utf-8', 'replace')!r:.40}"
