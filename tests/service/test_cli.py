"""The command line itself: it is installed, names its commands, and is quick to say so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_installed_command_answers() -> None:
    command = Path(sys.executable).with_name("elmo")

    for option in ("--version", "-V"):
        run = subprocess.run([command, option], capture_output=True, text=True, check=True)

        assert run.stdout.startswith("elmo, version ")
