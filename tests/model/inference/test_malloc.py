"""Memory that a network frees serves its next batch."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, torch
from elmo_model.inference.malloc import keep_memory
known = keep_memory() if sys.argv[1] == "keep" else True
for _ in range(20):
    torch.ones(12_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    torch.ones(12_000_000)  # 46 MiB, more than is ever kept by itself
print(int(known), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(habit: str) -> tuple[bool, int]:
    """Return whether the allocator was told, and the pages that five large arrays asked for."""
    command = [sys.executable, "-c", PROGRAM, habit]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return printed[0] == "1", int(printed[1])


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_pages_are_asked_for_once() -> None:
    told, kept = faults("keep")
    if not told:
        pytest.skip("another allocator than glibc's")
    _, given_back = faults("as it is")
    assert kept < 1000 < given_back
