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
    """A file cannot be read as text; the message names it."""


@contextmanager
def open_text(path: Path) -> Iterator[IO[str]]:
    """Open a file of UTF-8 text; the suffixes .gz, .xz and .bz2 mean compression.

    Lines end at newlines alone. Raises TextError, also while lines are read, for a file that is
    missing, truncated or not UTF-8.
    """
    opener = _OPENERS.get(path.suffix, open)
    try:
        with opener(path, "rt", encoding="utf-8", newline="\n") as lines:
            yield lines
    except (OSError, EOFError, UnicodeDecodeError, lzma.LZMAError) as error:
        raise TextError(f"{path}: cannot be read as text: {error}") from error
