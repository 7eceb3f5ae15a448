"""The file of API keys: a key a line, with or without a name, and comments."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import SecretStr

KEY: Final = re.compile(r"(?![\"'])[!-+\--~]+")
"""Printable ASCII but the space and the comma: what a header and a list of keys can carry. A quote
in front would be part of the key, which nobody means."""

_NAMED: Final = re.compile(rf"(?:([A-Za-z0-9._-]{{1,64}}):[ \t]+)?({KEY.pattern})")

Stamp = tuple[int, int, int]
"""Time of the last change in nanoseconds, inode and size: another one is another content."""


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The keys that a file held at `stamp`, and the names of those that have one."""

    path: Path
    keys: tuple[SecretStr, ...]
    stamp: Stamp | None
    names: dict[str, str] = field(default_factory=dict, repr=False)


def read(file: str | Path) -> KeyFile:
    """Read a file of keys: `KEY` or `NAME: KEY` a line; blank lines and `#` lines are skipped.

    Raises:
        ValueError: the file cannot be read, a line is no key, or there is none. The text shows
            nothing of the file.
    """
    path = Path(file)
    found_at = stamp(path)  # before the text: a change in between is seen by the next look
    keys: dict[str, None] = {}  # a set that keeps the order
    names: dict[str, str] = {}
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    for number, line in enumerate(content.decode("utf-8-sig", "replace").splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        found = _NAMED.fullmatch(text)
        if found is None:
            raise ValueError(
                f"line {number} is no key: expected KEY or NAME: KEY, a key of printable ASCII "
                "without spaces, commas and quotes"
            )
        name, key = found.groups()
        if name and key not in keys:
            names[key] = name
        keys[key] = None
    if not keys:  # a server that was given a file is meant to ask for keys
        raise ValueError("holds no key")
    return KeyFile(path, tuple(map(SecretStr, keys)), found_at, names)


def stamp(path: Path) -> Stamp | None:
    """Return the stamp of the file that a path leads to, through links; None for no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
