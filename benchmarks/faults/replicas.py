"""The replicas under test: three servers on one task folder, each behind a link of its own."""

import asyncio
import contextlib
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.faults.hostile import BODY_BYTES
from benchmarks.faults.link import Link
from tests.support.processes import below, children, is_alive, name_of
from tests.support.servers import Running, free_port, running

PROCESSES = {"worker": 2, "helper": 2}
"""Child processes that a replica has at least."""

RAISES = "!raises"
"""The word for which the model of a replica raises."""

MEMORY_TOKENS = 600
"""Padded tokens that fit into the memory of its simulated device."""

REQUEST_SECONDS = 60.0

_CONTROL = struct.Struct("=3q")  # of preload.c
SERVER = (sys.executable, "-m", "benchmarks.faults.server")
"""The command of a server with a model that raises, and a device without memory."""


@dataclass
class Replica:
    """One replica; `stopped` are the processes that were stopped and must be replaced."""

    index: int
    folder: Path
    tasks: Path
    model: Path
    port: int = field(default_factory=free_port)
    server: Running | None = None
    stopped: list[int] = field(default_factory=list)
    front: asyncio.Lock = field(default_factory=asyncio.Lock)  # one fault of the front at a time
    starts: int = 0

    def __post_init__(self) -> None:
        self.link = Link(self.port)
        self.url = f"http://127.0.0.1:{self.link.port}"
        self._stack = ExitStack()
        self.folder.mkdir()
        self._numbers = [0] * 3
        self._control = self.folder / "faults"
        self._control.write_bytes(_CONTROL.pack(*self._numbers))

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        settings: dict[str, Any] = {
            "workers_per_device": PROCESSES["worker"],
            "max_body_bytes": BODY_BYTES,
            "request_timeout_seconds": REQUEST_SECONDS,
            "log_format": "json",
        }
        self.starts += 1
        folder = self.folder / str(self.starts)
        with ExitStack() as stack:
            self.server = stack.enter_context(
                running(
                    folder,
                    port=self.port,
                    command=(*SERVER, "--raises", RAISES, "--memory-tokens", str(MEMORY_TOKENS)),
                    data_home=self.folder,
                    model=self.model,
                    tasks=self.tasks,
                    **settings,
                )
            )
            self._stack = stack.pop_all()

    def stop(self) -> None:
        """Let it drain and end."""
        self._stack.close()

    def kill(self) -> None:
        """End its front process at once."""
        assert self.server is not None
        self.server.process.kill()
        self.stop()

    def disturb(self, place: int, value: int) -> None:
        """Set one number of preload.c: 0 the clock, 1 failing calls, 2 slow ones."""
        self._numbers[place] = value
        with self._control.open("r+b") as file:
            file.write(_CONTROL.pack(*self._numbers))  # in place: the replica has mapped the file

    def pids(self, role: str) -> list[int]:
        """Return its processes of a role, without those that were stopped for good."""
        assert self.server is not None
        if role == "front":
            return [self.server.pid]
        return [pid for pid in children(self.server.pid)[role] if pid not in self.stopped]

    def all_pids(self) -> set[int]:
        """Return all its processes."""
        assert self.server is not None
        return below(self.server.pid)

    def missing(self) -> str:
        """Return what differs from the state before the first fault; empty when nothing does."""
        assert self.server is not None
        try:
            with self.server.client(verify=False) as http:
                status = http.get("/health/ready").status_code
            up = self.server.metric("elmo_worker_up")
        except httpx.HTTPError as error:
            last = self.server.log.splitlines()[-20:]
            return "\n".join([f"no answer: {error!r}, exit {self.server.process.poll()}", *last])
        hung = [name_of(pid) for pid in self.stopped if is_alive(pid)]
        there = {role: len(self.pids(role)) for role in PROCESSES}
        is_whole = all(there[role] >= count for role, count in PROCESSES.items())
        if status != 200 or up != PROCESSES["worker"] or hung or not is_whole:
            return f"ready: {status}, workers up: {up:g}, processes: {there}, hung: {hung}"
        return ""

    def logs(self) -> list[str]:
        """Return the log of each of its starts."""
        return [path.read_text() for path in sorted(self.folder.glob("*/serve.log"))]


def compiled(folder: Path) -> tuple[Path | None, str]:
    """Return the library that disturbs a replica, or None and why there is none."""
    target = folder / "preload.so"
    source = Path(__file__).with_name("preload.c")
    if shutil.which("gcc") is None or sys.platform != "linux":
        return None, "there is no gcc"
    command = ["gcc", "-O2", "-shared", "-fPIC", "-o", str(target), str(source), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (target, "") if done.returncode == 0 else (None, done.stderr.strip()[:200])


@contextlib.contextmanager
def throttle_file(name: str) -> Iterator[Path | None]:
    """Make a cgroup; yield the file of its processor quota, or None where none can be made."""
    made = None
    for root, quota in (("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"), ("/sys/fs/cgroup", "cpu.max")):
        folder = Path(root, name)
        try:
            folder.mkdir()
        except OSError:
            continue
        if os.access(folder / quota, os.W_OK):
            made = folder
            break
        folder.rmdir()
    try:
        yield None if made is None else made / quota
    finally:
        if made is not None:
            with contextlib.suppress(OSError):  # a process that has not ended yet
                made.rmdir()
