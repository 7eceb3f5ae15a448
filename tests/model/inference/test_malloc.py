"""Memory that a network frees is kept for its next batch."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, torch
from elmo_model.inference.malloc import keep_freed_memory
tuned = keep_freed_memory() if sys.argv[1] == "keep" else True
for _ in range(20):
    torch.ones(12_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    torch.ones(12_000_000)  # 46 MiB, above the largest default threshold for mmap
print(int(tuned), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(mode: str) -> tuple[bool, int]:
    """Return whether the allocator was tuned, and the page faults of five large arrays."""
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
