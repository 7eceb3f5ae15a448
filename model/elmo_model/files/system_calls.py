"""System calls that Linux alone has, each with its other case."""

import os
from typing import BinaryIO

_ZEROS = bytes(1 << 20)


def usable_cores() -> int:
    """Return the number of cores that this process may use; without Linux all of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def reserve(file: BinaryIO, start: int, stop: int) -> None:
    """Reserve room on the disk for a file up to byte `stop`; its bytes from `start` on are zeros.

    Raises OSError where the disk is full. Without Linux the zeros are written.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, stop)
        return
    file.seek(start)
    for position in range(start, stop, len(_ZEROS)):
        file.write(_ZEROS[: stop - position])
