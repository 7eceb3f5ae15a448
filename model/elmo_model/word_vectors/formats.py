"""The formats of word vectors: text, word2vec's binary one, and safetensors.

The text format is that of GloVe, word2vec and fastText: a word and its numbers a line. word2vec and
fastText put the number of words and the width in a first line; GloVe does not. word2vec's binary
format has such a line, then each word, a space, and float32. Safetensors hold `vectors`
(N, width), and `words`, their UTF-8 with newlines.
"""

import gzip
import io
import math
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from elmo_model.errors import ElmoError, counted, shown
from elmo_model.text.files import MAX_LINE

_GZIP = b"\x1f\x8b"

_BUFFER_BYTES = 1 << 20
"""Bytes that are read at once, and the most that `Source.peek` shows."""

_MAX_WIDTH = 1 << 20
"""Largest width of a vector: a larger one means that the file has another format."""


_FAULTS = (OSError, EOFError, zlib.error)


class WordVectorsError(ElmoError):
    """A file holds no word vectors, or damaged ones; the message names file and line or word."""


def check_width(place: object, width: int) -> None:
    """Raise WordVectorsError for a width that no vector has; `place` is the file, or its line."""
    if not 1 <= width <= _MAX_WIDTH:
        raise WordVectorsError(f"{place}: the width is {width}, expected from 1 to {_MAX_WIDTH:,}")


class Source:
    """The decompressed bytes of a file, with a look ahead."""

    def __init__(self, path: Path, stream: "io.BufferedReader[io.RawIOBase]") -> None:
        self.path = path
        self._stream = stream

    def peek(self, size: int) -> bytes:
        """Return up to `size` bytes, at most 1 MiB, without a step forward."""
        with _reading(self.path):
            return self._stream.peek(size)[:size]

    def exactly(self, size: int, what: str) -> bytes:
        """Return the next `size` bytes. Raises WordVectorsError where the file ends before."""
        try:  # `_reading` takes longer than a short word
            data = self._stream.read(size)
        except _FAULTS as error:
            raise _unreadable(self.path, error) from error
        if len(data) < size:
            raise WordVectorsError(
                f"{self.path}: ends after {len(data):,} of {size:,} bytes of {what}"
            )
        return data

    def until(self, end: bytes, max_bytes: int, what: str) -> bytes:
        """Return the bytes before the next `end`, one byte, and step behind it.

        Raises WordVectorsError where it is not among the next `max_bytes` bytes.
        """
        found = bytearray()
        try:
            # Byte by byte: `peek` copies the rest of the buffer, which takes longer than a word.
            while (byte := self._stream.read(1)) != end:
                found += byte
                if not byte or len(found) > max_bytes:
                    raise WordVectorsError(
                        f"{self.path}: {what} has no end within {max_bytes} bytes"
                    )
        except _FAULTS as error:
            raise _unreadable(self.path, error) from error
        return bytes(found)

    def rest(self) -> bytes:
        """Return everything that is left."""
        with _reading(self.path):
            return self._stream.read()

    def lines(self) -> Iterator[bytes]:
        """Yield the rest line by line, each with its newline, of at most MAX_LINE bytes."""
        with _reading(self.path):
            for line in iter(partial(self._stream.readline, MAX_LINE + 1), b""):
                if len(line) > MAX_LINE:
                    raise WordVectorsError(f"{self.path}: has a line of more than {MAX_LINE} bytes")
                yield line


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """Open a file, gzip or not.

    Raises WordVectorsError where it cannot be opened or read. Errors of the body are its own: its
    OSError may be that of a file which it writes.
    """
    with ExitStack() as stack:
        with _reading(path):
            raw: io.RawIOBase = stack.enter_context(io.FileIO(path))
            file = io.BufferedReader(raw, _BUFFER_BYTES)
            is_packed = file.peek(len(_GZIP)).startswith(_GZIP)
        if not is_packed:
            yield Source(path, file)
            return
        packed = cast(io.RawIOBase, stack.enter_context(gzip.open(file)))
        yield Source(path, io.BufferedReader(packed, _BUFFER_BYTES))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise WordVectorsError where a file cannot be read, or its gzip is damaged."""
    try:
        yield
    except _FAULTS as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> WordVectorsError:
    return WordVectorsError(f"{path}: cannot be read: {error}")


Vector = NDArray[np.float32]
Words = Iterator[tuple[bytes, Vector]]
"""The UTF-8 and the vector (width,) of each word of a file, in its order."""

HEADER: Final = re.compile(rb"([0-9]+) ([0-9]+)[ \r]*\n?")

_ENDS: Final = b" \r\n"
_HEADER_BYTES: Final = 100

_MAX_WORD_BYTES: Final = 10_000
"""Longest word of word2vec's binary format: a longer one means that the file has another format."""


def read_text(source: Source) -> Words:
    """Yield the words of a text.

    A word may contain spaces, as some of GloVe's do: the last numbers of a line, as many as the
    width, are its vector. Words are split at spaces alone, since they may contain other white
    space. Raises WordVectorsError, which names the line.
    """
    lines = enumerate(source.lines(), 1)
    expected, width, number, count = None, 0, 0, 0
    for number, line in lines:
        if number == 1 and (header := HEADER.fullmatch(line)):
            expected, width = int(header[1]), int(header[2])
            check_width(f"{source.path}:1", width)
            continue
        fields = line.rstrip(_ENDS).split(b" ")
        width = width or len(fields) - 1
        word, vector = _parsed(fields, width, f"{source.path}:{number}")
        count += 1
        if expected is not None and count > expected:
            raise WordVectorsError(
                f"{source.path}:{number}: is word {count:,}, and line 1 says {expected:,}"
            )
        yield word, vector
    if expected is not None and count < expected:
        raise WordVectorsError(
            f"{source.path}:{number}: the file ends after {count:,} words, and line 1 says "
            f"{expected:,}"
        )


def read_word2vec(source: Source) -> Words:
    """Yield the words of a binary file. Raises WordVectorsError, which names the word's number."""
    line = source.until(b"\n", _HEADER_BYTES, "the first line")
    header = HEADER.fullmatch(line)
    if header is None:
        raise WordVectorsError(f"{source.path}:1: found {shown(line)}, expected count and width")
    count, width = int(header[1]), int(header[2])
    check_width(f"{source.path}:1", width)
    for number in range(1, count + 1):
        what = f"word {number:,} of {count:,}"
        # word2vec.c ends a vector with a newline; some writers do not.
        word = source.until(b" ", _MAX_WORD_BYTES, what).lstrip(b"\n")
        vector = np.frombuffer(source.exactly(4 * width, f"the vector of {what}"), "<f4")
        if not np.isfinite(vector).all():
            raise WordVectorsError(f"{source.path}: {what}: a number is not finite")
        yield word, vector
    if rest := source.peek(2).lstrip(b"\n"):
        raise WordVectorsError(
            f"{source.path}: holds {rest!r} behind its {count:,} words of width {width}, which "
            "its first line announces"
        )


def is_tensors(head: bytes) -> bool:
    """Tell whether a file begins as safetensors do: 8 bytes of length, then a JSON object."""
    return head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32


def read_tensors(source: Source) -> Words:
    """Yield the words of safetensors. Raises WordVectorsError for other tensors."""
    try:
        tensors = load(source.rest())
    except SafetensorError as error:
        raise WordVectorsError(f"{source.path}: is not whole safetensors: {error}") from error
    except KeyError as error:  # a type that NumPy lacks, such as BF16
        raise WordVectorsError(
            f"{source.path}: holds numbers of the type {error.args[0]}, expected the tensors "
            "vectors, of float16, float32 or float64, and words"
        ) from error
    words, vectors = _checked(tensors, source.path)
    if not np.isfinite(vectors).all():
        raise WordVectorsError(f"{source.path}: a number is not finite")
    yield from zip(words, vectors.astype(np.float32), strict=True)


def tensors_of(words: list[bytes], vectors: NDArray[np.float32]) -> bytes:
    """Return a file for N words without newlines and their vectors (N, width)."""
    text = np.frombuffer(b"\n".join(words), np.uint8)
    return save({"words": text, "vectors": np.ascontiguousarray(vectors)})


def _parsed(fields: list[bytes], width: int, place: str) -> tuple[bytes, NDArray[np.float32]]:
    # A word of two parts that ends in a number is a line with a number too many.
    surplus = len(fields) > width + 1 and _is_number(fields[-width - 1])
    if width < 1 or len(fields) <= width or surplus:
        found = sum(1 for _ in takewhile(_is_number, reversed(fields[1:])))
        raise WordVectorsError(
            f"{place}: has {counted(found, 'number')} behind {_shown(fields[0])}, expected "
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
    return shown(field.decode("utf-8", "replace"))


def _checked(tensors: Mapping[str, NDArray[Any]], path: Path) -> tuple[list[bytes], NDArray[Any]]:
    names = sorted(tensors)
    if names != ["vectors", "words"]:
        raise WordVectorsError(
            f"{path}: has the tensors {', '.join(names)[:80]}; expected vectors and words"
        )
    vectors, text = tensors["vectors"], tensors["words"]
    if vectors.ndim != 2 or vectors.dtype.kind != "f" or text.dtype != np.uint8:
        raise WordVectorsError(
            f"{path}: vectors is {vectors.shape} of {vectors.dtype} and words of {text.dtype}, "
            "expected two dimensions of floats, and uint8"
        )
    check_width(path, vectors.shape[1])
    words = text.tobytes().split(b"\n") if len(vectors) else []
    if len(words) != len(vectors):
        raise WordVectorsError(f"{path}: has {len(words)} words and {len(vectors)} vectors")
    return words, vectors
