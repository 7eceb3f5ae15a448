"""Text files, plain or compressed."""

import bz2
import gzip
import lzma
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


class TextError(ValueError):
    """A file that cannot be read as text; the message names it."""


@contextmanager
def open_text(path: Path) -> Iterator[IO[str]]:
    """Give the lines of a file in UTF-8; .gz, .xz and .bz2 are opened by the name's end.

    Lines end at newlines alone. Raises TextError, also while they are read, for a file that is not
    there, cut off or no UTF-8.
    """
    opener = _OPENERS.get(path.suffix, open)
    try:
        with opener(path, "rt", encoding="utf-8", newline="\n") as lines:
            yield lines
    except (OSError, EOFError, UnicodeDecodeError, lzma.LZMAError) as error:
        raise TextError(f"{path}: cannot be read as text: {error}") from error
