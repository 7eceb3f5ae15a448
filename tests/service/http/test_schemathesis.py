"""The server behaves as its OpenAPI document says: the checks of schemathesis."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.servers import Running

COMMAND = Path(sys.executable).with_name("schemathesis")

# 422 is the right response to faults that a schema does not describe: `text` beside `sentences`, a
# token number beyond its text, `dimensions` that are not the width of the model (400 below /v1/).
CONFIGURATION = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 504]

[[operations]]
include-path-regex = "^/v1/models/{name}"
parameters = { name = "small" }

[[operations]]
include-path-regex = "^(/embed|/score|/substitutes|/neighbours|/uses|/tasks/{name})$"
warnings = false

[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 404, 409, 422, 429, 503, 504]

[[operations]]
include-path-regex = "^/v1/embeddings$"
warnings = false

[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 404, 422, 429, 503, 504]
"""


@pytest.mark.usefixtures("tasks")
@pytest.mark.long
def test_every_operation_passes_the_checks(searched: Running, tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION)
    document = httpx.get(searched.url + "/openapi.json").json()
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    run = subprocess.run(
        [
            *(COMMAND, "run", "openapi.json", "--url", searched.url, "--checks", "all"),
            *("--max-examples", "25", "--seed", "1", "--workers", "1", "--no-color"),
            *("--request-timeout", "120"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert "No issues found" in run.stdout
    count = sum(map(len, document["paths"].values()))
    assert f"{count} selected / {count} total" in run.stdout
