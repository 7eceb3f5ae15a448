"""Text files, plain or compressed."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from elmo_model.errors import ElmoError

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
COMPRESSIONS = tuple(_OPENERS)
"""The endings of compressed files."""

_DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error)


class TextError(ElmoError):
    """A file cannot be read as text; the message names it."""


@contextmanager
def open_text(path: Path) -> Iterator[Iterator[str]]:
    """Open a file of UTF-8 text and yield its lines; suffixes .gz, .xz and .bz2 mean compression.

    Lines end at newlines alone, and a byte order mark at the start is left out. Raises TextError,
    also while lines are read, for a file that is missing, damaged or not UTF-8. Errors of the body
    are its own: its OSError may be that of a file which it writes.
    """
    opener = _OPENERS.get(path.suffix, open)
    with ExitStack() as stack:
        with _reading(path):
            file = opener(path, "rt", encoding="utf-8-sig", newline="\n")
            stack.enter_context(file)
        yield _lines(path, file)


def _lines(path: Path, file: IO[str]) -> Iterator[str]:
    with _reading(path):
        yield from file


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (*_DAMAGED, UnicodeDecodeError) as error:
        raise TextError(f"{path}: cannot be read as text: {error}") from error


def numbered_lines(path: Path, offset: int = 0) -> Iterator[tuple[int, bytes, str]]:
    """Yield the number, from 1, the bytes and the text of each line, without its end.

    The first line begins at byte `offset` of the content, uncompressed. Lines end at newlines
    alone; the suffixes are those of `open_text`. A byte order mark at the start of the file is left
    out. Raises TextError, with the number of the line, for a file that is missing, damaged or not
    UTF-8. The message starts with the path.
    """
    opener = _OPENERS.get(path.suffix, open)
    number = 0
    try:
        with opener(path, "rb") as lines:
            lines.seek(offset)
            for number, line in enumerate(lines, 1):
                encoding = "utf-8-sig" if number == 1 and not offset else "utf-8"
                yield number, line, line.decode(encoding).rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise TextError(f"{path}, line {number}: is not UTF-8: {error.reason}") from error
    except _DAMAGED as error:
        place = f"{path}, after line {number}" if number else str(path)
        reason = getattr(error, "strerror", None) or error
        raise TextError(f"{place}: cannot be read: {reason}") from error
