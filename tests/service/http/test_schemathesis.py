"""The server behaves as its OpenAPI document says: all checks of schemathesis."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import Running

COMMAND = Path(sys.executable).with_name("schemathesis")

# The document allows any X-Request-Timeout above 0. A deadline of 1e-300 s passes before anything
# is computed: 504 is the right response to it, although it is a 5xx.
CONFIGURATION = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 504]

[[operations]]
include-path = "/v1/models/{name}"
parameters = { name = "small" }

[[operations]]
include-path = "/similarity"

[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 404, 422, 504]
"""


@pytest.mark.usefixtures("tasks")
def test_every_check_on_every_operation_passes(server: Running, tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION)
    run = subprocess.run(
        [
            *(COMMAND, "run", server.url + "/openapi.json", "--checks", "all"),
            *("--max-examples", "25", "--seed", "1", "--workers", "1", "--no-color"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert "No issues found" in run.stdout
    assert "25 selected / 25 total" in run.stdout
