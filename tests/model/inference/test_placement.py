"""Every tensor is on the device of the network, found without a GPU by fake tensors."""

import json
import sys

import pytest

from tests.support import fork_server
from tests.support.placement import DEVICE, IS_POSSIBLE, OPERATIONS, RUNS

pytestmark = pytest.mark.skipif(not IS_POSSIBLE, reason="torch without devices made in Python")


@pytest.fixture(scope="module")
def errors() -> dict[str, str]:
    done = fork_server.run([sys.executable, "-m", "tests.support.placement"])
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("run", [" ".join(run) for run in RUNS])
def test_a_network_on_a_device_keeps_every_tensor_there(errors: dict[str, str], run: str) -> None:
    assert errors[run] == ""


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("network", ["plain", "float32"])
def test_a_tensor_on_the_cpu_would_be_found(
    errors: dict[str, str], network: str, operation: str
) -> None:
    error = errors[f"{network} {operation}"]
    assert "devices" in error and f"{DEVICE}:0" in error and "cpu" in error
