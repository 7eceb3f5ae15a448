"""Every tensor is on the device of the network, and the device is not waited for: no GPU needed."""

import json
import sys
from typing import Any

import pytest

from tests.support import fork_server
from tests.support.cuda import IS_POSSIBLE, NAME
from tests.support.placement import OPERATIONS, RUNS

pytestmark = pytest.mark.skipif(not IS_POSSIBLE, reason="torch without devices made in Python")

ENCODERS = [" ".join(run) for run in RUNS if run[0] != "plain"]


@pytest.fixture(scope="module")
def reports() -> dict[str, Any]:
    done = fork_server.run([sys.executable, "-m", "tests.support.placement"])
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("run", [" ".join(run) for run in RUNS])
def test_a_network_on_a_device_keeps_every_tensor_there(reports: dict[str, Any], run: str) -> None:
    """Vectors differ from those of the CPU as products in another order, or of 16 bits, do."""
    assert reports[run]["error"] == ""
    assert reports[run]["difference"] < (0.2 if "bfloat16" in run else 1e-4)


@pytest.mark.parametrize("run", ENCODERS)
def test_a_batch_waits_for_nothing_before_its_vectors_are_fetched(
    reports: dict[str, Any], run: str
) -> None:
    assert reports[run]["waits"] == reports[run]["blocking_uploads"] == []
    assert len(reports[run]["scorer_waits"]) <= 1


@pytest.mark.parametrize("run", ENCODERS)
def test_a_time_step_has_few_launches(reports: dict[str, Any], run: str) -> None:
    """A launch takes the host about 5 us, which is what a step costs on a GPU."""
    layers, directions = 2, 2
    assert reports[run]["step_launches"] <= layers * directions * (15 if "bfloat16" in run else 11)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("network", ["plain", "float32"])
def test_a_tensor_on_the_cpu_would_be_found(
    reports: dict[str, Any], network: str, operation: str
) -> None:
    error = reports[f"{network} {operation}"]["error"]
    assert "devices" in error and f"{NAME}:0" in error and "cpu" in error
