"""Static word vectors: the files of GloVe and word2vec, and the one file that is looked up in.

GloVe has a line a word: the word and its numbers. word2vec has the number of words and the width in
a first line, then such lines or, in its binary format, each word, a space, and float32.

The file that `write_word_vectors` makes is of safetensors, and is mapped into memory:

vectors   float32 (N, width), row by row as in the source
words     uint8, the UTF-8 of all words without separators, then newlines up to 8 bytes
ends      uint64 (N,), the end of each word in bytes
hashes    uint64 (N,), sorted
rows      uint64 (N,), the word of each hash
"""

import gzip
import hashlib
import io
import json
import math
import re
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from elmo_model.errors import ElmoError, counted, shown
from elmo_model.files.atomic import open_replacing
from elmo_model.text.files import MAX_LINE

Vector = NDArray[np.float32]
Words = Iterator[tuple[bytes, Vector]]
"""The UTF-8 and the vector (width,) of each word of a file, in its order."""

_GZIP: Final = b"\x1f\x8b"
_HEADER: Final = re.compile(rb"([0-9]{1,18}) ([0-9]{1,18})[ \r]*\n?")

_BUFFER_BYTES: Final = 1 << 20
_SAMPLE_BYTES: Final = 4_096
"""Bytes by which word2vec's binary format is told from its text."""

_MAX_WIDTH: Final = 1 << 20
"""Largest width of a vector: a larger one means that the file has another format."""

_MAX_WORD_BYTES: Final = 10_000
"""Longest word of word2vec's binary format: a longer one means that the file has another format."""

_HEAD_BYTES: Final = 1_024
"""Bytes before the vectors in the file that is written: a length, and JSON with spaces behind."""

_TYPES: Final = {"F32": np.float32, "U8": np.uint8, "U64": np.uint64}


class WordVectorsError(ElmoError):
    """A file holds no word vectors, or damaged ones; the message names file and line or word."""


@dataclass(frozen=True, slots=True)
class WordVectorsInfo:
    """The description of word vectors: `file` is its name, `revision` a short SHA-256 of them."""

    file: str
    revision: str
    words: int
    dimension: int


@dataclass(frozen=True, slots=True, eq=False)
class WordVectors:
    """N words and their vectors, memory-mapped: all processes of a machine share one copy.

    `vectors` is (N, width), in the order of the file.
    """

    info: WordVectorsInfo
    vectors: NDArray[np.float32]
    _text: NDArray[np.uint8]
    _ends: NDArray[np.uint64]
    _hashes: NDArray[np.uint64]
    _rows: NDArray[np.uint64]

    @classmethod
    def open(cls, path: Path) -> Self:
        """Map a file of `write_word_vectors` into memory. Raises WordVectorsError for another."""
        try:
            data = np.asarray(np.memmap(path, np.uint8, "r"))
            info, arrays = _arrays(data, path.name)
            ends, rows, hashes = arrays["ends"], arrays["rows"], arrays["hashes"]
            ascend = all((each[1:] >= each[:-1]).all() for each in (ends, hashes))
            if not ascend or ends[-1] > arrays["words"].size or rows.max() >= info.words:
                raise ValueError("it is damaged")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WordVectorsError(
                f"{path}: is no whole file of `elmo word-vectors` ({error}); GloVe and word2vec "
                f"become one by `elmo word-vectors {path} --out FILE`"
            ) from error
        return cls(info, arrays["vectors"], arrays["words"], ends, hashes, rows)

    def look_up(self, tokens: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Map n tokens to their vectors (n, width), and tell which are unknown (n,).

        The exact word, then its lower case; the vector of an unknown token is zeros.
        """
        distinct = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
        exact, lower = self._find(distinct), self._find([token.lower() for token in distinct])
        rows = np.where(exact >= 0, exact, lower)
        rows = rows[np.array([distinct[token] for token in tokens], np.int64)]
        vectors = self.vectors[np.maximum(rows, 0)]
        vectors[rows < 0] = 0
        return vectors, rows < 0

    def word(self, row: int) -> bytes:
        """Return the UTF-8 of the word of a row."""
        start = int(self._ends[row - 1]) if row else 0
        return self._text[start : int(self._ends[row])].tobytes()

    def _find(self, tokens: Iterable[str]) -> NDArray[np.int64]:
        """Return the row of each token, -1 for one that the file lacks."""
        words = [token.encode("utf-8", "surrogatepass") for token in tokens]
        wanted = np.array([_hash(word) for word in words], np.uint64)
        starts = np.searchsorted(self._hashes, wanted)
        ends = np.searchsorted(self._hashes, wanted, "right")
        rows = np.full(len(words), -1, np.int64)
        for number, word in enumerate(words):
            # Two words may have one hash, and a word may occur twice: the first row counts.
            same_hash = map(int, self._rows[starts[number] : ends[number]])
            rows[number] = next((row for row in same_hash if self.word(row) == word), -1)
        return rows


def write_word_vectors(out: Path, words: Iterable[tuple[bytes, Vector]]) -> WordVectorsInfo:
    """Write words and their vectors, all of one width, to a file that `WordVectors` opens.

    Raises WordVectorsError where there is no word, and OSError for a full disk.
    """
    text, ends, hashes, width = bytearray(), array("Q"), array("Q"), 0
    digest = hashlib.sha256()
    with open_replacing(out) as file:
        file.write(bytes(_HEAD_BYTES))
        for word, vector in words:
            data = vector.astype("<f4", copy=False).tobytes()
            width = vector.size
            digest.update(word + b"\n" + data)
            file.write(data)
            text += word
            ends.append(len(text))
            hashes.append(_hash(word))
        if not ends:
            raise WordVectorsError(f"{out}: there are no words")
        file.write(text.ljust(len(text) + -(file.tell() + len(text)) % 8, b"\n"))
        values = np.array(hashes, np.uint64)
        order = np.argsort(values, kind="stable")  # of a repeated word the first row counts
        for numbers in (np.array(ends, np.uint64), values[order], order.astype(np.uint64)):
            file.write(numbers.tobytes())
        size = file.tell()
        file.seek(0)
        revision = digest.hexdigest()[:12]
        file.write(_head(len(ends), width, size, revision))
    return WordVectorsInfo(out.name, revision, len(ends), width)


def _head(words: int, width: int, size: int, revision: str) -> bytes:
    """Return the first bytes of a file of `size` bytes in all."""
    text = size - _HEAD_BYTES - 4 * words * width - 3 * 8 * words
    header: dict[str, Any] = {"__metadata__": {"format": "elmo", "revision": revision}}
    end = 0
    for name, kind, shape in (
        ("vectors", "F32", (words, width)),
        ("words", "U8", (text,)),
        *((name, "U64", (words,)) for name in ("ends", "hashes", "rows")),
    ):
        start, end = end, end + math.prod(shape) * np.dtype(_TYPES[kind]).itemsize
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, end]}
    length = _HEAD_BYTES - 8
    return length.to_bytes(8, "little") + json.dumps(header).encode().ljust(length)


def _arrays(data: NDArray[np.uint8], name: str) -> tuple[WordVectorsInfo, dict[str, Any]]:
    """Return the description and the arrays of a whole file. Raises ValueError for another one."""
    head = data[:_HEAD_BYTES].tobytes()
    header = json.loads(head[8:])
    revision = header.pop("__metadata__")["revision"]
    words, width = header["vectors"]["shape"]
    if words < 1 or head != _head(words, width, data.size, revision):
        raise ValueError("its head is another one")
    arrays = {
        name: data[_HEAD_BYTES:][slice(*each["data_offsets"])]
        .view(_TYPES[each["dtype"]])
        .reshape(each["shape"])
        for name, each in header.items()
    }
    return WordVectorsInfo(name, revision, words, width), arrays


def read_word_vectors(path: Path) -> Words:
    """Yield the words of a file of GloVe or word2vec, gzip or not.

    Raises WordVectorsError, which names the line or the number of the word.
    """
    try:
        with path.open("rb") as file:
            open_bytes: Any = gzip.open if file.read(2) == _GZIP else partial(open, buffering=0)
        with open_bytes(path, "rb") as file, io.BufferedReader(file, _BUFFER_BYTES) as stream:
            first, _, rest = stream.peek(_SAMPLE_BYTES)[:_SAMPLE_BYTES].partition(b"\n")
            # Numbers of four bytes are hardly ever printable; a text has no control characters.
            is_binary = any(byte < 9 or 13 < byte < 32 for byte in rest)
            read = _binary if _HEADER.fullmatch(first) and is_binary else _text
            yield from read(stream, path)
    except (OSError, EOFError, zlib.error) as error:  # an error of the consumer is not raised here
        raise WordVectorsError(f"{path}: cannot be read: {error}") from error


def _text(stream: io.BufferedReader, path: Path) -> Words:
    """Yield the words of a text.

    A word may contain spaces, as some of GloVe's do: the last numbers of a line, as many as the
    width, are its vector. Words are split at spaces alone, since they may contain other white
    space.
    """
    expected, width, number, count = None, 0, 0, 0
    for number, line in enumerate(iter(partial(stream.readline, MAX_LINE + 1), b""), 1):
        if len(line) > MAX_LINE:
            raise WordVectorsError(f"{path}:{number}: is a line of more than {MAX_LINE} bytes")
        if number == 1 and (header := _HEADER.fullmatch(line)):
            expected, width = _count_and_width(header, path)
            continue
        fields = line.rstrip(b" \r\n").split(b" ")
        width = width or len(fields) - 1
        yield _parsed(fields, width, f"{path}:{number}")
        count += 1
        if count == expected and stream.peek(1):
            raise WordVectorsError(f"{path}:{number}: more follows; line 1 says {expected:,} words")
    if expected is not None and count < expected:
        raise WordVectorsError(
            f"{path}:{number}: the file ends after {count:,} words, expected {expected:,}"
        )


def _binary(stream: io.BufferedReader, path: Path) -> Words:
    """Yield the words of word2vec's binary format."""
    header = _HEADER.fullmatch(stream.readline())
    assert header is not None, "the format is known by its first line"
    count, width = _count_and_width(header, path)
    for number in range(1, count + 1):
        place = f"{path}: word {number:,} of {count:,}"
        word = bytearray()
        while (byte := stream.read(1)) != b" ":
            word += byte
            if not byte or len(word) > _MAX_WORD_BYTES:
                raise WordVectorsError(f"{place}: has no end within {_MAX_WORD_BYTES:,} bytes")
        data = stream.read(4 * width)
        if len(data) < 4 * width:
            raise WordVectorsError(f"{place}: the file ends inside its vector")
        vector = np.frombuffer(data, "<f4")
        if not np.isfinite(vector).all():
            raise WordVectorsError(f"{place}: a number is not finite")
        # word2vec.c ends a vector with a newline; some writers do not.
        yield bytes(word.lstrip(b"\n")), vector
    if rest := stream.read(2).lstrip(b"\n"):
        raise WordVectorsError(f"{path}: holds {rest!r} behind its {count:,} words")


def _count_and_width(header: re.Match[bytes], path: Path) -> tuple[int, int]:
    count, width = int(header[1]), int(header[2])
    if not 1 <= width <= _MAX_WIDTH:
        raise WordVectorsError(f"{path}:1: the width is {width}, expected 1 to {_MAX_WIDTH:,}")
    return count, width


@np.errstate(over="ignore")  # a number beyond float32 is not finite
def _parsed(fields: list[bytes], width: int, place: str) -> tuple[bytes, Vector]:
    vector = np.array([_number(field) for field in fields[-width:]], np.float32)
    # A word of two parts that ends in a number is a line with a number too many.
    surplus = len(fields) > width + 1 and math.isfinite(_number(fields[-width - 1]))
    if width < 1 or len(fields) <= width or surplus or not np.isfinite(vector).all():
        word = shown(fields[0].decode("utf-8", "replace"))
        numbers = sum(1 for _ in takewhile(math.isfinite, map(_number, reversed(fields[1:]))))
        raise WordVectorsError(
            f"{place}: has {counted(numbers, 'finite number')} behind {word}, "
            f"expected {width or '1 or more'}"
        )
    return b" ".join(fields[:-width]), vector


def _number(field: bytes) -> float:
    try:
        return float(field)
    except ValueError:
        return math.nan


def _hash(word: bytes) -> int:
    """Return the 64-bit hash of a word that the file is sorted by."""
    return int.from_bytes(hashlib.blake2b(word, digest_size=8).digest(), "little")
