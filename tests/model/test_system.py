"""Calls to the system: cores, room on the disk, memory that is kept."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from elmo_model.system import mapped_array, usable_cores


def test_a_process_may_use_some_cores_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = os.cpu_count() or 1
    assert 1 <= usable_cores() <= cores
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert 1 <= usable_cores() <= cores  # fewer in a container with a quota


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/", {"cpu.max": "150000 100000"}, 2),
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("0::/", {"cpu.max": "max 100000"}, 3),
        ("0::/a/b", {"a/cpu.max": "100000 100000", "a/b/cpu.max": "max 100000"}, 1),
        ("0::/a/b", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "200000 100000"}, 2),
        ("0::/on/the/host", {"cpu.max": "100000 100000"}, 1),
        (
            "5:memory:/m\n4:cpu,x:/a\n0::/",
            {
                "cpu,x/a/cpu.cfs_quota_us": "50000",
                "cpu,x/a/cpu.cfs_period_us": "100000",
            },
            1,
        ),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ("", {}, 3),
    ],
)
def test_the_lowest_quota_of_all_groups_counts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    groups: str,
    files: dict[str, str],
    cores: int,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    for name, text in files.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)

    assert usable_cores(tmp_path) == cores


PROGRAM = """
import ctypes, resource, sys
from elmo_model.system import keep_freed_memory
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


@pytest.fixture(params=["linux", "macos"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system calls of Linux, and those of macOS."""
    if request.param == "macos":
        monkeypatch.delattr(os, "posix_fallocate", raising=False)


@pytest.mark.usefixtures("system")
def test_an_array_is_kept_in_its_file(tmp_path: Path) -> None:
    made = mapped_array(tmp_path / "a.npy", (3, 2), np.float16)
    made[1] = 5
    made.flush()

    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), [[0, 0], [5, 5], [0, 0]])
    assert made.dtype == np.float16
    assert mapped_array(tmp_path / "b.npy", (0, 2), np.float16).shape == (0, 2)


@pytest.mark.usefixtures("system")
def test_all_bytes_have_their_room_on_the_disk(tmp_path: Path) -> None:
    """So a full disk is an error here, and not a signal at a later write into the memory."""
    mapped_array(tmp_path / "a.npy", (1_000, 300), np.float32)

    found = (tmp_path / "a.npy").stat()
    assert found.st_blocks * 512 >= found.st_size
