"""Which devices there are, without loading torch into the front."""

from __future__ import annotations

import ctypes
import importlib.metadata


def available() -> tuple[str, ...]:
    """Return every CUDA device that this installation of torch can use, or the CPU."""
    count = 0 if _is_cpu_build() else _cuda_devices()
    return tuple(f"cuda:{index}" for index in range(count)) or ("cpu",)


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
