"""Text files, plain or compressed."""

import bz2
import gzip
import hashlib
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from elmo_model.errors import ElmoError

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
COMPRESSIONS = tuple(_OPENERS)
"""The endings of compressed files."""

MAX_LINE = 1 << 24
"""The longest line in bytes. With a greater value a file without line ends fills more memory."""

_EXPECTED = "expected UTF-8, as `iconv -f ENCODING -t UTF-8` writes it"

_DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error)


class TextError(ElmoError):
    """A file cannot be read as text; the message names it."""


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes, str]]:
    """Yield the number, from 1, the bytes and the text of each line, without its end.

    Suffixes .gz, .xz and .bz2 mean compression. Raises TextError, which begins with the path, for a
    file that is missing, and as `lines_in` does.
    """
    opener = _OPENERS.get(path.suffix, open)
    try:
        with opener(path, "rb") as stream:
            yield from lines_in(stream, str(path))
    except _DAMAGED as error:
        raise _unreadable(str(path), error) from error


def lines_in(stream: BinaryIO, name: str) -> Iterator[tuple[int, bytes, str]]:
    """Yield the number, from 1, the bytes and the text of each line of a stream, without its end.

    Lines end at newlines alone. A byte order mark at the start is left out.
    Raises TextError, with `name` and the number of the line, for a stream that is damaged or not
    UTF-8, that holds NUL, or a line of more than MAX_LINE bytes.
    """
    number = 0
    try:
        for number, line in enumerate(iter(partial(stream.readline, MAX_LINE + 1), b""), 1):
            if len(line) > MAX_LINE:
                raise TextError(
                    f"{name}:{number}: is longer than expected, at most {MAX_LINE:,} bytes"
                )
            if b"\0" in line:
                raise TextError(f"{name}:{number}: has NUL, as UTF-16 does; {_EXPECTED}")
            encoding = "utf-8-sig" if number == 1 else "utf-8"
            yield number, line, line.decode(encoding).rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise TextError(f"{name}:{number}: is not UTF-8: {error.reason}; {_EXPECTED}") from error
    except _DAMAGED as error:
        raise _unreadable(f"{name}, after line {number}" if number else name, error) from error


def _unreadable(place: str, error: Exception) -> TextError:
    return TextError(f"{place}: cannot be read: {getattr(error, 'strerror', None) or error}")


def lines_of(path: Path) -> Iterator[str]:
    """Yield the text of each line as `numbered_lines` does. Raises TextError."""
    return (text for _, _, text in numbered_lines(path))


def refuse_learned(text: Path, learned: Sequence[Path]) -> None:
    """Raise TextError for a text to measure that is one of those to learn, or has its bytes."""
    size = text.stat().st_size
    for path in learned:
        has_size = 0 < path.stat().st_size == size  # a pipe has 0, and can be read once
        if path.samefile(text) or (has_size and _digest(path) == _digest(text)):
            raise TextError(
                f"{text}: is the same text as {path}, which is trained on; expected a text of its "
                "own"
            )


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
