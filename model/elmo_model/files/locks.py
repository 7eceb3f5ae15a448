"""Locks of files and folders against other processes; a process that ends gives its locks back."""

import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from filelock import FileLock, Timeout

_LOGGED_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.01

# EBADF: NFS locks no file that is open for reading alone.
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOTSUP, errno.EBADF)

_log = logging.getLogger(__name__)


@contextmanager
def locked_file(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of the file `path`, which is made, while the block runs.

    A wait of more than a second for another process is logged. On a file system without locks the
    block runs without one. The file can be written by every user, since each has to open it for
    writing.

    Raises:
        BlockingIOError: another thread or process holds the lock, and `wait` is false.
        OSError: the file can neither be made nor be written.
    """
    path.parent.stat()  # filelock would make a folder that is missing
    lock = FileLock(path, mode=0o666, poll_interval=_POLL_SECONDS)
    try:
        lock.acquire(_LOGGED_SECONDS if wait else 0)
    except Timeout:
        if not wait:
            raise BlockingIOError(f"another process has locked {path}") from None
        _log.warning("waiting for the lock %s, which another process holds", path)
        lock.acquire()
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    try:
        yield
    finally:
        lock.release()


@contextmanager
def only_writer(folder: Path, refusal: Exception) -> Iterator[None]:
    """Hold the lock of a folder, which is made, while the block runs: that of the file `.lock`.

    On NFS only a file that is open for writing can be locked, and no folder. Raises `refusal` where
    another process holds the lock, and OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_file(folder / ".lock", wait=False))
        except BlockingIOError:
            raise refusal from None
        yield


def lock_now(file: IO[bytes]) -> None:
    """Lock an open file until it is closed; without a lock where a file system knows none.

    Raises BlockingIOError where another process, or another opening of the file, holds it.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (*_NO_LOCKS, errno.ENOSYS):
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
