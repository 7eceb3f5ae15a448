"""A full disk for this process: a limit on the size of its files, which ends writes early."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """Let no file grow beyond `room` bytes: a write beyond raises OSError (EFBIG).

    Children started inside the block inherit the limit. Python ignores SIGXFSZ, which the limit
    also sends.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
