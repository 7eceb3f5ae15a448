"""A file of word vectors as a stream of bytes, decompressed where it is compressed."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from elmo_model.errors import ElmoError

GZIP = b"\x1f\x8b"
"""First bytes of a gzip file."""

_BUFFER_BYTES = 1 << 20
"""Bytes that are read at once, and the most that `Source.peek` shows."""

_MAX_WIDTH = 1 << 20
"""Largest width of a vector: a larger one means that the file has another format."""


class WordVectorsError(ElmoError):
    """A file holds no word vectors, or damaged ones; the message names file and line or word."""


def check_width(place: object, width: int) -> None:
    """Raise WordVectorsError for a width that no vector has; `place` is the file, or its line."""
    if not 1 <= width <= _MAX_WIDTH:
        raise WordVectorsError(f"{place}: the width is {width}, expected from 1 to {_MAX_WIDTH:,}")


class Source:
    """The decompressed bytes of a file, with a look ahead."""

    def __init__(self, path: Path, stream: io.BufferedReader) -> None:
        self.path = path
        self._stream = stream

    def peek(self, size: int) -> bytes:
        """Return up to `size` bytes, at most 1 MiB, without a step forward."""
        return self._stream.peek(size)[:size]

    def exactly(self, size: int, what: str) -> bytes:
        """Return the next `size` bytes. Raises WordVectorsError where the file ends before."""
        data = self._stream.read(size)
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
        # Byte by byte: `peek` copies the rest of the buffer, which takes longer than a short word.
        while (byte := self._stream.read(1)) != end:
            found += byte
            if not byte or len(found) > max_bytes:
                raise WordVectorsError(f"{self.path}: {what} has no end within {max_bytes} bytes")
        return bytes(found)

    def rest(self) -> bytes:
        """Return everything that is left."""
        return self._stream.read()

    def lines(self) -> Iterator[bytes]:
        """Yield the rest line by line, each with its newline."""
        return iter(self._stream)


class _Bytes(io.RawIOBase):
    """The bytes of an open file, decompressed. Reads raise WordVectorsError, never OSError."""

    def __init__(self, path: Path, plain: io.BufferedIOBase) -> None:
        self._path = path
        self._plain = plain

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill a writable buffer; return how many bytes it has got, 0 at the end."""
        with _reading(self._path):
            return self._plain.readinto(buffer)

    def readall(self) -> bytes:
        """Return everything that is left."""
        with _reading(self._path):
            return self._plain.read()


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """Open a file, gzip or not.

    Raises WordVectorsError where it cannot be opened or read. Errors of the body are its own: its
    OSError may be that of a file which it writes.
    """
    with ExitStack() as stack:
        with _reading(path):
            file = stack.enter_context(path.open("rb"))
            is_packed = file.read(len(GZIP)) == GZIP
            file.seek(0)
        plain = stack.enter_context(gzip.open(file)) if is_packed else file
        yield Source(path, io.BufferedReader(_Bytes(path, plain), _BUFFER_BYTES))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise WordVectorsError where a file cannot be read, or its gzip is damaged."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise WordVectorsError(f"{path}: cannot be read: {error}") from error
