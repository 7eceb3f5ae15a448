"""Locks of files and folders against other processes; a process that ends gives its locks back."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Make a file where it is missing, and wait until no other process has its lock.

    Raises OSError.
    """
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. Raises BlockingIOError where another process has it, and OSError.

    A shared lock of another process counts as well.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def share_folder(folder: Path) -> int:
    """Open a folder with a shared lock; return its descriptor, whose close ends the lock.

    Raises OSError for no folder. Some network file systems have no locks: then there is none.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor
