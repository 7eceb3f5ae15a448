"""What the OpenAPI document says is what the server does: schemathesis, all its checks."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import Running

COMMAND = Path(sys.executable).with_name("schemathesis")


@pytest.mark.usefixtures("tasks")
def test_every_check_on_every_operation_passes(server: Running, tmp_path: Path) -> None:
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
    assert "9 selected / 9 total" in run.stdout
