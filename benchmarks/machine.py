"""Where and of what a table was measured."""

from __future__ import annotations

import datetime
import os
import platform
import shutil
import subprocess
from pathlib import Path


def describe() -> str:
    """Return one line: date, commit, processor, cores, Python and torch."""
    import torch  # noqa: PLC0415  # only the line itself needs it

    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    cores = len(os.sched_getaffinity(0))
    python = platform.python_version()
    versions = f"Python {python}, torch {torch.__version__}"
    return f"{date}, {_commit()}, {_processor()}, {cores} cores, {versions}"


def _commit() -> str:
    if (git := shutil.which("git")) is None:
        return "no commit"
    command = [git, "describe", "--always", "--dirty"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"commit {found.stdout.strip()}" if found.returncode == 0 else "no commit"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
