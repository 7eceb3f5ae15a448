"""A real `elmo serve` in a process of its own, for as long as a test wants it.

with running(tmp_path, model=SMALL, max_body_bytes=1000) as server:
    httpx.get(server.url + "/info")
    assert "ready" in server.log
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from elmo_model.files.atomic import write_bytes
from tests.support.fork_server import Forked, forked
from tests.support.processes import below

SMALL = Path(__file__).parents[1] / "golden" / "allennlp" / "small"

_COMMAND = Path(sys.executable).with_name("elmo")
_LISTENING = re.compile(r'listening on (http://[^\s",]+)')


def until(is_so: Callable[[], bool], seconds: float = 300) -> None:
    """Wait for a state that stays once it is reached; raises AssertionError if it never is."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "the state was not reached"
        time.sleep(0.02)


def write_task(folder: Path, name: str, **members: object) -> Path:
    """Rename the file of a task into a folder, as `elmo fit` and `elmo tasks` do."""
    path = folder / f"{name}.json"
    write_bytes(path, json.dumps({"name": name, **members}).encode())
    return path


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers; `url` has no slash at its end."""

    url: str
    process: subprocess.Popen[bytes] | Forked
    log_file: Path

    until = staticmethod(until)

    @property
    def pid(self) -> int:
        """The process id of the front."""
        return self.process.pid

    @property
    def log(self) -> str:
        """Everything it has logged so far."""
        return self.log_file.read_text(encoding="utf-8")

    def client(self, **options: Any) -> httpx.Client:
        """Return a client that takes paths, to be closed by the caller."""
        return httpx.Client(base_url=self.url, timeout=300, **options)

    def metric(self, name: str, **labels: str) -> float:
        """Return one number of /metrics by its sample name; 0 when there is none."""
        for line in httpx.get(self.url + "/metrics").text.splitlines():
            sample, _, value = line.rpartition(" ")
            if sample.split("{")[0] == name and all(
                f'{key}="{wanted}"' in sample for key, wanted in labels.items()
            ):
                return float(value)
        return 0.0

    def serve_task(self, name: str, **members: object) -> None:
        """Write a task file to the folder `tasks` beside the log, and wait until it is served."""
        write_task(self.log_file.parent / "tasks", name, **members)
        model = {"model": str(members["model"])} if "model" in members else {}
        url = f"{self.url}/tasks/{name}"
        shown = {name: value for name, value in members.items() if name != "fit"}
        until(lambda: shown.items() <= httpx.get(url, params=model).json().items())

    def until_embedded(self) -> None:
        """Wait until it can answer POST /neighbours over the text that comes with the program."""
        body = {"tokens": ["a"], "token": 0}
        with self.client() as client:
            until(lambda: client.post("/neighbours", json=body).status_code == 200, seconds=600)

    def descriptors(self) -> list[str]:
        """Return the targets of the descriptors that the server process holds."""
        found = []
        for link in Path(f"/proc/{self.pid}/fd").glob("*"):
            with suppress(OSError):  # it has just been closed
                found.append(str(link.readlink()))
        return found

    def stop(self, seconds: float = 120) -> int:
        """Send SIGTERM and return the exit status; a server that does not end is killed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


def free_port() -> int:
    """Return a port of the loopback interface on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def running(
    folder: Path,
    *,
    until_ready: bool = True,
    command: Sequence[str | Path] = (_COMMAND, "serve"),
    data_home: Path | None = None,
    is_forked: bool = True,
    **settings: object,
) -> Iterator[Running]:
    """Start `elmo serve` on a free port, wait until it is ready, and stop it in the end.

    `settings` are those of `elmo_serve.settings`, by field name; no other variable reaches it. Its
    log goes to `folder`, from info up, for its address is read there. With `until_ready` false it
    is only waited for until it listens. `command` is another program that reads the same variables.
    A folder of tasks is made. `data_home` holds the cache of models, and is by default inside
    `folder`. The server is forked from a process that has imported the program; `is_forked` false
    is for a test of the start, of memory or of processes.

    Raises RuntimeError with the log when it does not come up.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if "tasks" in settings:
        Path(str(settings["tasks"])).mkdir(parents=True, exist_ok=True)
    log_file = folder / "serve.log"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ELMO_")}
    settings = {"host": "127.0.0.1", "port": 0} | settings
    environment |= {f"ELMO_{key.upper()}": str(value) for key, value in settings.items()}
    environment["XDG_DATA_HOME"] = str(data_home or folder / "data")
    environment["XDG_CACHE_HOME"] = str(folder / "cache")
    with log_file.open("wb") as log:
        process = _start(list(map(str, command)), environment, log.fileno(), is_forked=is_forked)
    server = None
    try:
        server = Running(_listening(process, log_file), process, log_file)
        if until_ready:
            _wait_until_ready(server)
        yield server
    finally:
        if server is None:
            process.kill()
            process.wait()
        else:
            server.stop()


spawned = partial(running, is_forked=False)
"""A server as an operator starts it."""


def _start(
    command: list[str], environment: dict[str, str], log: int, *, is_forked: bool
) -> subprocess.Popen[bytes] | Forked:
    is_known = command[0] == str(_COMMAND) or command[:2] == [sys.executable, "-m"]
    if is_forked and is_known:
        return forked(command, environment, stdout=log, stderr=log)
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
    )


def _listening(
    process: subprocess.Popen[bytes] | Forked, log_file: Path, seconds: float = 60
) -> str:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        if found := _LISTENING.search(log_file.read_text(encoding="utf-8")):
            return found[1]
        time.sleep(0.02)
    raise RuntimeError(f"the server does not listen:\n{log_file.read_text(encoding='utf-8')}")


def _wait_until_ready(server: Running, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    with server.client() as client:
        while time.monotonic() < deadline and server.process.poll() is None:
            with suppress(httpx.TransportError):  # it may end while it is asked
                if client.get("/health/ready").status_code == 200:
                    return
            time.sleep(0.05)
    for pid in below(server.pid):
        with suppress(ProcessLookupError):  # it has ended
            os.kill(pid, signal.SIGUSR1)  # a forked one writes its stacks to the log
            time.sleep(0.5)
    raise RuntimeError(f"the server is not ready:\n{server.log}")
