"""A log that nobody reads loses lines and counts them; everything else goes on."""

import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.support.processes import children
from tests.support.servers import SMALL, Running, free_port

TOLD = re.compile(rb"(\d+) log lines were dropped")

PROGRAM = """
import logging, signal, sys
from elmo_serve import logs
signal.alarm(120)  # where a line waits to be read, the test fails
logs.configure("info", "text")
log = logging.getLogger("a")
for number in range(4_000):
    log.info("%06d" + 1_000 * "x", number)
print(logs.lines_dropped(), flush=True)
sys.stdin.readline()
logging.getLogger().handlers[0].flush()  # what was queued
log.info("on")
"""


def test_lines_that_nobody_reads_are_dropped_and_told_of_when_it_goes_on() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as program:
        assert program.stdout is not None
        dropped = int(program.stdout.readline())
        _, log = program.communicate(b"go on\n")

    lines = log.splitlines()
    first = [int(line[-1_006:-1_000]) for line in lines[:-2]]
    assert first == list(range(4_000 - dropped))
    assert dropped > 0
    (told,) = TOLD.findall(lines[-2])
    assert int(told) == dropped
    assert lines[-1].endswith(b"on")


@pytest.mark.parametrize("ending", ["os._exit(logging.shutdown() or 0)", "sys.exit(0)"])
def test_the_end_waits_for_a_reader_for_a_bounded_time(ending: str) -> None:
    end = f"import os; logs._FLUSH_SECONDS = 0.1; {ending}"
    program = PROGRAM.replace("sys.stdin.readline()", end)
    read, write = os.pipe()
    with os.fdopen(read), os.fdopen(write, "wb") as stderr:
        subprocess.run([sys.executable, "-c", program], stderr=stderr, check=True, timeout=120)


def test_a_second_end_waits_for_no_line() -> None:
    """A child process ends its log itself, and the interpreter again: each took a second."""
    program = """
import logging
from elmo_serve import logs
logs._FLUSH_SECONDS = None  # a wait has no end
logs.configure("info", "text")
logging.getLogger("a").info("on")
logging.shutdown()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@contextmanager
def unread(folder: Path) -> Iterator[tuple[Running, int]]:
    """Run a server whose log is a small pipe; yield it and the descriptor to read from."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4_096)
    port = free_port()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ELMO_")}
    command = [str(Path(sys.executable).with_name("elmo")), "serve", "--host", "127.0.0.1"]
    options = ["--port", str(port), "--model", str(SMALL), "--tasks", str(folder)]
    with os.fdopen(read, "rb"), os.fdopen(write, "wb") as stderr:
        process = subprocess.Popen([*command, *options], stderr=stderr, env=environment)
        stderr.close()
        server = Running(f"http://127.0.0.1:{port}", process, folder / "none")
        try:
            yield server, read
        finally:
            process.kill()
            process.wait()


def is_ready(server: Running) -> bool:
    with suppress(httpx.TransportError):  # it does not listen yet
        return server.metric("elmo_worker_up") == 1
    return False


def fill(server: Running) -> None:
    """Send requests until lines are dropped."""
    before = server.metric("elmo_log_lines_dropped_total")

    def drops() -> bool:
        for _ in range(500):
            assert client.get("/none", headers={"X-Request-Id": "i" * 64}).status_code == 404
        return server.metric("elmo_log_lines_dropped_total") > before

    with server.client() as client:
        server.until(drops)


@pytest.mark.long
def test_a_server_whose_log_nobody_reads_answers_replaces_its_worker_and_ends(
    tmp_path: Path,
) -> None:
    with unread(tmp_path) as (server, log):
        server.until(lambda: is_ready(server))
        fill(server)
        (worker,) = children(server.pid)["worker"]
        os.kill(worker, signal.SIGKILL)
        server.until(lambda: children(server.pid)["worker"] not in ([], [worker]))
        server.until(lambda: is_ready(server))
        with server.client() as client:
            assert client.post("/embed", json={"text": ["It goes on."]}).status_code == 200

            text = b""
            while not TOLD.search(text):
                text += os.read(log, 4_096)
                client.get("/none")

        fill(server)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(120) == 0
