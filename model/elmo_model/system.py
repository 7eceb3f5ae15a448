"""Cores, files and memory: what Linux or glibc alone has, each with its other case."""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np

    _Number = TypeVar("_Number", bound=np.generic)

_QUOTA_FILES = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
"""Microseconds of processor time, and the period that they are for, in cgroup versions 2 and 1."""

_ZEROS = bytes(1 << 20)

_SPINS = "10000"  # half a millisecond on an Intel Xeon (Sapphire Rapids)


def usable_cores(root: Path = Path("/")) -> int:
    """Return the cores that this process may use: by its affinity, and by quotas of its groups.

    Without Linux these are all of the machine. `root` has /proc and /sys.
    """
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(1, min([count, *map(math.ceil, _quotas(root))]))


def _quotas(root: Path) -> Iterator[float]:
    """Return the quotas, in cores, of this process's control groups and of all their parents.

    Both versions of cgroups are read. In a container the path of a group may be the one on the
    host: folders that do not exist have no quota.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:  # "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1
        _, controllers, path = line.split(":", 2)
        base = root / "sys/fs/cgroup" / controllers
        group = PurePosixPath(path.lstrip("/"))
        for folder in (base / group, *(base / parent for parent in group.parents)):
            for names in _QUOTA_FILES:
                try:
                    text = " ".join((folder / name).read_text(encoding="utf-8") for name in names)
                    quota, period = map(int, text.split())
                except (OSError, ValueError):  # "max": no quota
                    continue
                if quota > 0:
                    yield quota / period


def mapped_array(
    path: Path, shape: tuple[int, ...], dtype: type[_Number]
) -> np.memmap[tuple[int, ...], np.dtype[_Number]]:
    """Write an .npy file of zeros and map it into memory; all of its room on the disk is reserved.

    Raises OSError where the disk is full. A file with holes would raise nothing: a full disk is
    then found at a write into the memory, and is a signal (SIGBUS) that ends the process. Without
    Linux the zeros are written.
    """
    import numpy as np  # noqa: PLC0415 - the command line does without it

    array = np.lib.format.open_memmap(path, "w+", dtype, shape)
    size = path.stat().st_size
    with path.open("r+b") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
            return array
        file.seek(array.offset)
        for position in range(array.offset, size, len(_ZEROS)):
            file.write(_ZEROS[: size - position])
    return array


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8  # glibc's malloc.h
# Bytes. The heap is never trimmed, and grows by at least 64 MiB at a time; a larger number saves
# system calls and wastes memory.
_NEVER, _PAD = (1 << 31) - 1, 64 << 20


def let_threads_sleep(environment: MutableMapping[str, str]) -> None:
    """Make torch's threads (libgomp) of the processes started from now on sleep soon without work.

    By default they look for work for 10 ms, on a core that the server's process needs: with a small
    model that took an eighth of the tokens a second (`benchmarks/load.py` with 32 clients). A
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
