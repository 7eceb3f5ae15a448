"""A plugin of pytest for tests of Ray, which loads it before the libraries of the model.

It also ends the process as soon as pytest is done. Threads in Ray's C++ outlive `ray.shutdown`: one
has ended a process by SIGSEGV while the interpreter was torn down, after all tests had passed.
"""

import os
import sys

import pytest
import ray

__all__ = ["pytest_sessionfinish", "pytest_unconfigure", "ray"]

_statuses = [1]


def pytest_sessionfinish(exitstatus: int) -> None:
    _statuses.append(int(exitstatus))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_statuses[-1])
