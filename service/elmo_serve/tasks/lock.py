"""A lock that threads and servers take before they change a folder which they share.

The folders of tasks, of jobs and of fetched models have one each.
"""

import errno
import fcntl
import itertools
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from elmo_serve.errors import Unavailable

ATTEMPTS: Final = 500
"""How often the lock is tried, `_PAUSE_SECONDS` apart, before `locked` gives up. With a larger
number a thread waits longer for a server that was stopped while it held the lock."""

_PAUSE_SECONDS: Final = 0.01

_LOGGED_ATTEMPT: Final = 100
"""The attempt after which a wait is logged: after a second."""

_log = logging.getLogger(__name__)


@contextmanager
def locked(path: Path, attempts: int | None = ATTEMPTS) -> Iterator[None]:
    """Hold the lock of the file `path`, which is made, while the block runs.

    `attempts` None waits without a limit, as for a download by another server.

    The kernel releases it when the process ends, however it ends. On a file system without locks
    the block runs without one.

    Raises:
        OSError: the file can neither be made nor be read.
        Unavailable: another thread or server holds the lock for too long. A server that was stopped
            by SIGSTOP holds it until it goes on.
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
            raise Unavailable(f"Another server has locked {path}.", retry_after=10)
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
