"""API keys in a file: one a line, and comments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import SecretStr

KEY: Final = re.compile(r"[!-+\--~]+")
"""Printable ASCII but the space and the comma: what a header and a list of keys can carry."""

_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The keys that a file held when it was read."""

    path: Path
    keys: tuple[SecretStr, ...]


def read(path: Path) -> KeyFile:
    """Read a file of keys; blank lines and lines that start with # are passed over.

    Raises ValueError, which shows nothing of what is in the file.
    """
    try:
        if not path.is_file():
            raise ValueError("is no file")
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise ValueError(f"has more than {_MOST_BYTES} bytes")
    keys: dict[str, None] = {}  # a set that keeps the order
    for number, line in enumerate(data.decode("utf-8-sig", "replace").splitlines(), start=1):
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        if not KEY.fullmatch(key):
            raise ValueError(f"line {number} is no key")
        keys[key] = None
    if not keys:  # whoever names a file wants keys to be asked for
        raise ValueError("holds no key")
    return KeyFile(path, tuple(map(SecretStr, keys)))
