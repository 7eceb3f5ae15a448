"""The processes of a running server, and what they hold."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path


def children(pid: int) -> dict[str, list[int]]:
    """Return the processes below the front: `worker`, `helper` and Python's `tracker`."""
    found: dict[str, list[int]] = {"worker": [], "helper": [], "tracker": []}
    for child in _below(pid):
        try:
            role = _role(child)
        except OSError:  # it has just ended
            continue
        if role is not None:
            found[role].append(child)
    return found


def below(pid: int) -> set[int]:
    """Return a process and all that it has started, directly or through another one."""
    found = {pid}
    for child in _below(pid):
        found |= below(child)
    return found


def own_memory(pid: int) -> float:
    """Return what a process holds for itself in MB: without files and what is shared."""
    return _status(pid, "RssAnon") / 1024


def shared_memory(pid: int) -> float:
    """Return what a process has mapped of memory that it shares, in MB: here, of answers."""
    return _status(pid, "RssShmem") / 1024


def proportional_memory(pid: int) -> float:
    """Return the proportional set size of a process and all below it in bytes."""
    total = 0
    for process in below(pid):
        with contextlib.suppress(OSError):  # it has ended
            text = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii")
            total += sum(map(int, re.findall(r"^Pss:\s+(\d+)", text, re.MULTILINE)))
    return total * 1024.0


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process and of its children that have ended; 0 for none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def is_alive(pid: int) -> bool:
    """Say whether a process runs: a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def name_of(pid: int) -> str:
    """Return the number of a process, and its name while it runs."""
    with contextlib.suppress(OSError):
        return f"{pid} {Path(f'/proc/{pid}/comm').read_text().strip()}"
    return str(pid)


def _below(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except OSError:
            continue
    return found


def _role(pid: int) -> str | None:
    name = Path(f"/proc/{pid}/comm").read_text().strip()
    if name.startswith("elmo-"):  # the name of a forked child
        return "worker" if name.split("-")[1] == "worker" else "helper"
    command = Path(f"/proc/{pid}/cmdline").read_bytes()
    if b"resource_tracker" in command:
        return "tracker"
    if b"spawn" not in command:
        return None
    return "worker" if "libtorch" in Path(f"/proc/{pid}/maps").read_text() else "helper"


def _status(pid: int, key: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(key + ":")), 0)
