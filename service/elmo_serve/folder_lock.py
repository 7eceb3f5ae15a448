"""A lock that threads and servers take before they change a folder which they share."""

import errno
import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from elmo_serve.errors import Unavailable

ATTEMPTS: Final = 500
"""How often the lock is tried, `_PAUSE_SECONDS` apart, before `locked` gives up."""

_PAUSE_SECONDS: Final = 0.01


@contextmanager
def locked(path: Path, attempts: int = ATTEMPTS) -> Iterator[None]:
    """Hold the lock of the file `path`, which is made, while the block runs.

    The kernel releases it when the process ends, however it ends. A file system without locks lets
    everybody in.

    Raises:
        OSError: the file cannot be made.
        Unavailable: somebody else holds the lock for too long; that server may be stopped.
    """
    with path.open("wb") as lock:
        for _ in range(attempts):
            try:
                with without_locks():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_PAUSE_SECONDS)
        else:
            raise Unavailable(f"Another server has locked {path}.", retry_after=10)
        yield


@contextmanager
def without_locks() -> Iterator[None]:
    """Go on where a file system knows no locks."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
