"""A file of word vectors as a stream of bytes, decompressed where it is compressed."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

from elmo_model.errors import ElmoError

GZIP = b"\x1f\x8b"
"""First bytes of a gzip file."""

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
        """Yield the rest line by line, each with its newline."""
        with _reading(self.path):
            yield from self._stream


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
            is_packed = file.peek(len(GZIP)).startswith(GZIP)
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
