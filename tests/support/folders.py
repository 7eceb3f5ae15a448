"""Folders in states that tests need."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Take the right to write away. root, who may write anywhere, is another user meanwhile."""
    root = os.geteuid() == 0
    folder.chmod(0o555)
    if root:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)
