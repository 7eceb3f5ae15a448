"""What all programs share: their options' parser, their tables, and where they measured."""

import argparse
import datetime
import os
import platform
import shutil
import subprocess
from pathlib import Path


def parser(document: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help shows the docstring of a program as it is."""
    return argparse.ArgumentParser(
        description=document, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def head(*columns: str, names: int = 1) -> str:
    """Return the head of a table, whose columns hold numbers but for the first `names`."""
    return f"{row(*columns)}\n|{'---|' * names}{'--:|' * (len(columns) - names)}"


def row(*cells: object) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def describe() -> str:
    """Return one line: date, commit, processor, cores, Python and torch."""
    import torch  # noqa: PLC0415  # only the line itself needs it

    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    cores = len(os.sched_getaffinity(0))
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
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
