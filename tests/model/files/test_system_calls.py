"""Calls to the system: cores, room on the disk, memory that is kept."""

import os
import subprocess
import sys

import pytest

from elmo_model.files.system_calls import usable_cores


def test_a_process_may_use_some_cores_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = os.cpu_count() or 1
    assert 1 <= usable_cores() <= cores
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert 1 <= usable_cores() <= cores  # fewer in a container with a quota


PROGRAM = """
import ctypes, resource, sys
from elmo_model.files.system_calls import keep_freed_memory
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]
library.prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: pages of 4 KiB, however the system is set
tuned = keep_freed_memory() if sys.argv[1] == "keep" else True
size = 33 << 20  # above the largest default threshold for mmap
def use():
    memory = library.malloc(size)
    ctypes.memset(memory, 1, size)
    library.free(memory)
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
use()
print(int(tuned), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(mode: str) -> tuple[bool, int]:
    """Return whether the allocator was tuned, and the page faults of a second large array."""
    command = [sys.executable, "-c", PROGRAM, mode]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return printed[0] == "1", int(printed[1])


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_freed_pages_are_used_again() -> None:
    tuned, kept = page_faults("keep")
    if not tuned:
        pytest.skip("another allocator than glibc's")
    _, given_back = page_faults("default")
    assert kept < 1000 < given_back
