"""Folders in states that tests need."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Take the right to write away. root, who may write anywhere, is another user meanwhile."""
    with _limited(folder, 0o555):
        yield


@contextmanager
def closed(folder: Path) -> Iterator[None]:
    """Take every right away, so that a path below cannot even be looked up; root as above."""
    with _limited(folder, 0):
        yield


@contextmanager
def _limited(folder: Path, mode: int) -> Iterator[None]:
    root = os.geteuid() == 0
    folder.chmod(mode)
    if root:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)
