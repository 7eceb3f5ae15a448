"""A plugin of pytest for tests of Ray, which loads it before the libraries of the model.

It also ends the process as soon as pytest is done: one of ten runs ended by SIGSEGV after all tests
had passed, while the interpreter was torn down. The cause is not known; Ray's threads outlive
`ray.shutdown`.
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
