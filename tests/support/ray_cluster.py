"""A cluster of Ray on this machine, and a plugin of pytest for tests of Ray.

The plugin loads Ray before the libraries of the model. It also ends the process as soon as pytest
is done: one of ten runs ended by SIGSEGV after all tests had passed, while the interpreter was torn
down. The cause is not known; Ray's threads outlive `ray.shutdown`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from tests.support.processes import below

_STORE_BYTES = 100 * 1024**2  # of each node; Ray's least is 75 MiB

# Ray kills a proxy that has not started after 15 s, which takes longer on a busy machine, and one
# that does not answer its checks for 30 s.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "600",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "600",
}


@contextmanager
def cluster(*cpus: int) -> Iterator[Cluster]:
    """Start a node for each number of CPUs, the head first, and connect this process to it."""
    os.environ.update(_ENVIRONMENT)  # its processes inherit them
    found = Cluster()
    try:
        for count in cpus:
            options = {"object_store_memory": _STORE_BYTES, "include_dashboard": False}
            found.add_node(num_cpus=count, **options)
        found.wait_for_nodes()
        ray.init(address=found.address, log_to_driver=False, logging_level="error")
        yield found
    finally:
        ray.shutdown()
        found.shutdown()


def newest(of: Cluster) -> Any:
    """Return the node that was added last."""
    return of.list_all_nodes()[-1]


def lose_node(of: Cluster) -> None:
    """End all processes of the newest node at once, as a machine that loses its power."""
    node = newest(of)
    (raylet,) = node.all_processes["raylet"]
    for pid in below(raylet.process.pid):
        os.kill(pid, signal.SIGKILL)
    of.remove_node(node, allow_graceful=False)


_statuses = [1]


def pytest_sessionfinish(exitstatus: int) -> None:
    _statuses.append(int(exitstatus))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_statuses[-1])
