"""Locks of files and folders against other processes; a process that ends gives its locks back."""

import errno
import fcntl
import itertools
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

ATTEMPTS: Final = 500
"""How often a lock is tried, `_PAUSE_SECONDS` apart, before `locked_file` gives up. With a larger
number a thread waits longer for a process that was stopped while it held the lock."""

_PAUSE_SECONDS: Final = 0.01

_LOGGED_ATTEMPT: Final = 100
"""The attempt after which a wait is logged: after a second."""

_log = logging.getLogger(__name__)


@contextmanager
def locked_file(path: Path, attempts: int | None = ATTEMPTS) -> Iterator[None]:
    """Hold the lock of the file `path`, which is made, while the block runs.

    `attempts` None waits without a limit, as for a download by another process. On a file system
    without locks the block runs without one.

    Raises:
        BlockingIOError: another thread or process holds the lock for too long. One that was stopped
            by SIGSTOP holds it until it goes on.
        OSError: the file can neither be made nor be read.
    """
    with _opened(path) as lock:
        for attempt in itertools.count() if attempts is None else range(attempts):
            try:
                with without_locks():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if attempt == _LOGGED_ATTEMPT:
                    _log.warning("waiting for the lock %s, which another process holds", path)
                time.sleep(_PAUSE_SECONDS)
        else:
            raise BlockingIOError(f"Another server has locked {path}.")
        yield


def _opened(path: Path) -> BinaryIO:
    """Open the file of a lock, which may belong to another user: reading is enough for a lock."""
    try:
        return path.open("ab")
    except PermissionError as refusal:
        try:
            return path.open("rb")
        except OSError:
            raise refusal from None


@contextmanager
def without_locks() -> Iterator[None]:
    """Go on where a file system knows no locks: its errors of `flock` are dropped, no others."""
    try:
        yield
    except OSError as error:
        # EBADF: NFS locks no file that is open for reading alone.
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EBADF):
            raise


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
