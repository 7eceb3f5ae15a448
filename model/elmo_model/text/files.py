"""Text files, plain or compressed."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from elmo_model.errors import ElmoError

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
COMPRESSIONS = tuple(_OPENERS)
"""The endings of compressed files."""

_EXPECTED = "expected UTF-8, as `iconv -f ENCODING -t UTF-8` writes it"

_DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error)


class TextError(ElmoError):
    """A file cannot be read as text; the message names it."""


def numbered_lines(path: Path, offset: int = 0) -> Iterator[tuple[int, bytes, str]]:
    """Yield the number, from 1, the bytes and the text of each line, without its end.

    Suffixes .gz, .xz and .bz2 mean compression. The first line begins at byte `offset` of the
    content, uncompressed. Lines end at newlines alone. A byte order mark at the start of the file
    is left out. Raises TextError, with the number of the line, for a file that is missing, damaged
    or not UTF-8, or that holds NUL. The message starts with the path.
    """
    opener = _OPENERS.get(path.suffix, open)
    number = 0
    try:
        with opener(path, "rb") as lines:
            lines.seek(offset)
            for number, line in enumerate(lines, 1):
                if b"\0" in line:
                    raise TextError(f"{path}:{number}: has NUL, as UTF-16 does; {_EXPECTED}")
                encoding = "utf-8-sig" if number == 1 and not offset else "utf-8"
                yield number, line, line.decode(encoding).rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise TextError(f"{path}:{number}: is not UTF-8: {error.reason}; {_EXPECTED}") from error
    except _DAMAGED as error:
        place = f"{path}, after line {number}" if number else str(path)
        reason = getattr(error, "strerror", None) or error
        raise TextError(f"{place}: cannot be read: {reason}") from error


def lines_of(path: Path) -> Iterator[str]:
    """Yield the text of each line as `numbered_lines` does. Raises TextError."""
    return (text for _, _, text in numbered_lines(path))
