"""Calls to the system that Linux or glibc alone has, each with its other case."""

import ctypes
import math
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import BinaryIO

_ZEROS = bytes(1 << 20)

_SPINS = "10000"  # half a millisecond on an Intel Xeon (Sapphire Rapids)


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


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8  # glibc's malloc.h
# Bytes. The heap is never trimmed, and grows by at least 64 MiB at a time; a larger number saves
# system calls and wastes memory.
_NEVER, _PAD = (1 << 31) - 1, 64 << 20


def let_threads_sleep(environment: MutableMapping[str, str]) -> None:
    """Make torch's threads (libgomp) of the processes started from now on sleep soon without work.

    By default they look for work for 10 ms, on a core that the server's process needs: with a small
    model that took an eighth of the tokens a second (`elmo bench URL --clients 32`). A
    GOMP_SPINCOUNT in `environment` wins. Training has work again sooner and gains nothing.
    """
    environment.setdefault("GOMP_SPINCOUNT", _SPINS)


def keep_freed_memory() -> bool:
    """Make this process keep the memory that it frees; tell whether the allocator supports it.

    glibc gives large arrays back to the system when they are freed, and the system fills the next
    array with zeros page by page: an eighth of the processor's time for one batch after another.
    Memory that is kept serves every batch, and the process stays as large as its largest batch.

    The setting is one of the whole process. Only programs call this function, for processes that
    are their own: the process of a worker, `elmo embed` and `elmo train`. Call it after the model
    is loaded, so that memory freed during loading goes back to the system. It has no effect on
    other C libraries than glibc.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = {_MMAP_MAX: 0, _TRIM_THRESHOLD: _NEVER, _TOP_PAD: _PAD, _ARENA_MAX: 1}
    done = [mallopt(number, value) == 1 for number, value in settings.items()]
    return all(done)
