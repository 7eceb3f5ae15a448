"""Locks of files and folders against other processes; a process that ends gives its locks back."""

import errno
import fcntl
import itertools
import logging
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Final

ATTEMPTS: Final = 500
"""How often a lock is tried, `_PAUSE_SECONDS` apart, before `locked_file` gives up. With a larger
number a thread waits longer for a process that was stopped while it held the lock."""

_PAUSE_SECONDS: Final = 0.01

_LOGGED_ATTEMPT: Final = 100
"""The attempt after which a wait is logged: after a second."""

LOCK: Final = ".lock"
"""The file in a folder that its only writer locks."""

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
                lock_now(lock)
                break
            except BlockingIOError:
                if attempt == _LOGGED_ATTEMPT:
                    _log.warning("waiting for the lock %s, which another process holds", path)
                time.sleep(_PAUSE_SECONDS)
        else:
            raise BlockingIOError(f"Another server has locked {path}.")
        yield


@contextmanager
def only_writer(folder: Path, refusal: Exception) -> Iterator[None]:
    """Hold the lock of a folder, which is made, while the block runs: that of a file in it.

    On NFS only a file that is open for writing can be locked, and no folder. Raises `refusal` where
    another process holds the lock, and OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_file(folder / LOCK, attempts=1))
        except BlockingIOError:
            raise refusal from None
        yield


def _opened(path: Path) -> IO[bytes]:
    """Open the file of a lock, which may belong to another user: reading is enough for a lock."""
    try:
        return path.open("ab")
    except PermissionError as refusal:
        try:
            return path.open("rb")
        except OSError:
            raise refusal from None


def lock_now(file: IO[bytes]) -> None:
    """Lock an open file until it is closed; without a lock where a file system knows none.

    Raises BlockingIOError where another process, or another opening of the file, holds it.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # EBADF: NFS locks no file that is open for reading alone.
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EBADF):
            raise


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder that others share by `share_folder`, to remove it.

    Raises BlockingIOError where another process has or shares it, and OSError where folders have no
    locks, as on NFS: a writer takes `locked_file` with a file in its folder.
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
