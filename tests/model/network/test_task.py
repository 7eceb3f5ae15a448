"""A task is a plain value; reading one loads no network."""

import subprocess
import sys


def test_a_task_is_read_without_torch() -> None:
    program = (
        "import sys, elmo_model.network.task; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
