"""Which devices and how many cores there are, found without torch."""

from __future__ import annotations

import ctypes
import importlib.metadata
import math
import os
from collections.abc import Sequence
from pathlib import Path

from elmo_serve.settings import SettingsError


def available() -> tuple[str, ...]:
    """Return every CUDA device that this installation of torch can use, or the CPU."""
    return _cuda() or ("cpu",)


def check(names: Sequence[str], setting: str) -> None:
    """Check that devices exist; `setting` is the user's name for the setting that lists them.

    Raises:
        SettingsError: one of them is not here.
    """
    here = ("cpu", *_cuda())
    for name in names:
        if name not in here:
            cause = "this torch is built without CUDA" if _is_cpu_build() else "no such device"
            raise SettingsError(
                f"{setting}={','.join(names)!r} is not allowed: {name}: {cause}; "
                f"there is {', '.join(here)}"
            )


def cores() -> int:
    """Return the cores that this process may use: by its affinity, and by a container's quota."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(1, min(count, _quota() or count))


def _quota() -> int | None:
    """Return the whole cores of cgroup v2's cpu.max, which no affinity shows."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return math.ceil(int(quota) / int(period))
    except (OSError, ValueError):  # no cgroup, or "max": no quota
        return None


def _cuda() -> tuple[str, ...]:
    count = 0 if _is_cpu_build() else _cuda_devices()
    return tuple(f"cuda:{index}" for index in range(count))


def _is_cpu_build() -> bool:
    return importlib.metadata.version("torch").endswith("+cpu")


def _cuda_devices() -> int:
    """Ask the driver, which heeds CUDA_VISIBLE_DEVICES; no context is made."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return 0
    return count.value
