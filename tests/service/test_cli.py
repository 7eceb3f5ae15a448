"""The command line itself: it is installed, names its commands, and is quick to say so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_installed_command_answers() -> None:
    command = Path(sys.executable).with_name("elmo")

    run = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)

    assert run.stdout.startswith("elmo, version ")


def test_help_waits_for_nothing_heavy() -> None:
    code = (
        "import sys; from elmo_serve.cli import main; main(['--help'], standalone_mode=False);"
        "print(sorted({'torch', 'fastapi', 'pydantic', 'numpy', 'rich'} & sys.modules.keys()))"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert all(name in run.stdout for name in ("serve", "info", "convert"))
    assert run.stdout.splitlines()[-1] == "[]"
