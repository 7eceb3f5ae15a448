"""A worker on a device: the right vectors, and no wait between two batches. No GPU is needed."""

import json
import sys
from typing import Any

import pytest

from tests.support import fork_server
from tests.support.cuda import IS_POSSIBLE

pytestmark = pytest.mark.skipif(not IS_POSSIBLE, reason="torch without devices made in Python")


@pytest.fixture(scope="module")
def reports() -> dict[str, Any]:
    done = fork_server.run([sys.executable, "-m", "tests.support.placement", "worker"])
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("outputs", ["outputs", "language"])
def test_a_worker_on_a_device_has_the_results_of_one_on_the_cpu(
    reports: dict[str, Any], outputs: str
) -> None:
    """They differ as float16 numbers of the size of 1 do."""
    assert reports[outputs]["error"] == ""
    assert reports[outputs]["difference"] < 2e-3


def test_a_batch_is_launched_without_a_wait_for_the_one_before(reports: dict[str, Any]) -> None:
    report = reports["outputs"]
    assert report["waits"] == report["blocking_uploads"] == []
    assert report["downloads"] == 3 * 3  # float32, float16, and whether both are finite
    assert report["copies_at_once"] == 2


@pytest.mark.parametrize("outputs", ["outputs", "language"])
def test_a_worker_on_a_device_says_that_it_computes_while_a_second_batch_waits(
    reports: dict[str, Any], outputs: str
) -> None:
    assert reports[outputs]["beats"] > 10
