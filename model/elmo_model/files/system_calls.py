"""System calls that Linux alone has, each with its other case."""

import math
import os
from pathlib import Path
from typing import BinaryIO

_ZEROS = bytes(1 << 20)


def usable_cores() -> int:
    """Return the cores that this process may use: by its affinity, and by a container's quota.

    Without Linux these are all of the machine.
    """
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(1, min(count, _quota() or count))


def _quota() -> int | None:
    """Return the whole cores of cgroup v2's cpu.max, which no affinity shows."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="utf-8").split()
        return math.ceil(int(quota) / int(period))
    except (OSError, ValueError):  # no cgroup, or "max": no quota
        return None


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
