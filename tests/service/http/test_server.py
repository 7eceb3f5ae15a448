"""How the server is run: as many files can be open as its connections need."""

import json
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from subprocess import check_output

import httpx
import pytest
from fastapi import FastAPI

from elmo_serve.http.server import first_steps, listen, run
from elmo_serve.http.state import assemble
from elmo_serve.settings import Settings
from tests.support.gated_server import close_gate, gated
from tests.support.http_messages import HEAD, connected, read, statuses
from tests.support.processes import children
from tests.support.servers import SMALL, Running, running


@pytest.mark.parametrize(
    ("connections", "allowed", "warns"), [(300, 856, False), (4_000, 1_500, True)]
)
def test_the_limit_of_open_files_is_raised_as_far_as_it_may(
    tmp_path: Path, connections: int, allowed: int, warns: bool
) -> None:
    elmo = Path(sys.executable).with_name("elmo")
    command = ("sh", "-c", f'ulimit -S -n 64; ulimit -H -n 1500; exec "{elmo}" serve')
    with running(
        tmp_path, until_ready=False, command=command, model=SMALL, max_connections=connections
    ) as server:
        limits = Path(f"/proc/{server.pid}/limits").read_text(encoding="utf-8")
        log = server.log_file.read_text(encoding="utf-8")
        assert server.stop() == 0

    found = re.search(r"Max open files +(\d+) +(\d+)", limits)
    assert found and found.groups() == (str(allowed), "1500")
    assert ("few files can be open" in log) is warns


def test_a_lost_worker_is_replaced_while_as_many_connections_are_open_as_may_be(
    tmp_path: Path,
) -> None:
    """The files of the process bound the connections, whatever the setting."""
    elmo = Path(sys.executable).with_name("elmo")
    command = ("sh", "-c", f'ulimit -n 320; exec "{elmo}" serve')
    with (
        running(
            tmp_path, command=command, model=SMALL, max_connections=300, client_timeout_seconds=600
        ) as server,
        ExitStack() as idle,
    ):
        address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        for _ in range(400):
            idle.enter_context(socket.create_connection(address))
        server.until(lambda: len(server.descriptors()) > 160)
        (worker,) = children(server.pid)["worker"]
        os.kill(worker, signal.SIGKILL)
        server.until(lambda: server.log.count("worker ready") == 2)

        assert "Too many open files" not in server.log


def test_an_idle_connection_is_closed_after_its_time(tmp_path: Path) -> None:
    with (
        running(tmp_path, model=SMALL, until_ready=False, keep_alive_seconds=1) as server,
        connected(server) as connection,
    ):
        connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")

        assert statuses(read(connection)) == [200]  # which ends when the server closes


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_every_address_is_of_both_families(tmp_path: Path) -> None:
    with running(tmp_path, model=SMALL, host="::") as server:
        port = server.url.rpartition(":")[2]
        assert server.url == f"http://localhost:{port}"
        for address in ("127.0.0.1", "[::1]"):
            assert httpx.get(f"http://{address}:{port}/info").status_code == 200
        server.until(lambda: server.log.count("route=/info") == 2)

    assert "client=127.0.0.1" in server.log and "client=::1" in server.log
    assert "no API key" in server.log


def test_a_server_with_keys_does_not_warn_on_every_interface(narrow: Running) -> None:
    assert "on every interface" in narrow.log and "no API key" not in narrow.log


def test_without_ipv6_every_address_is_one_of_ipv4(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)

    (listening,) = listen(Settings(host="::", port=0))

    with listening:
        assert listening.getsockname()[0] == "0.0.0.0"
    assert "no IPv6" in caplog.text


def test_a_server_whose_application_cannot_start_ends(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def fails(app: FastAPI) -> AsyncIterator[None]:
        raise RuntimeError("can't start new thread")
        yield

    caplog.set_level("INFO")
    server = assemble(Settings(model=str(SMALL), port=0))

    with pytest.raises(SystemExit, match=r"[1-9]"):
        run(server, FastAPI(lifespan=fails))
    assert "listening" not in caplog.text and "new thread" in caplog.text


def test_a_closed_terminal_drains_the_server(tmp_path: Path) -> None:
    with gated(tmp_path) as server:
        for pid in (*(pid for each in children(server.pid).values() for pid in each), server.pid):
            os.kill(pid, signal.SIGHUP)  # it reaches every process of the terminal

        assert server.process.wait(60) == 0
        assert "draining" in server.log and "drained: every" in server.log
        assert "lost" not in server.log


def test_a_drain_that_takes_too_long_answers_503(tmp_path: Path) -> None:
    with gated(tmp_path, drain_timeout_seconds=0.5, request_timeout_seconds=600) as server:
        close_gate(server)
        answers: list[httpx.Response] = []

        def ask() -> None:
            body = {"sentences": [["a"]], "layers": "top"}
            answers.append(httpx.post(server.url + "/embed", json=body, timeout=600))

        asking = threading.Thread(target=ask)
        asking.start()
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as half:
            half.sendall(HEAD + b"Content-Length: 9\r\n\r\n{")
            server.until(lambda: server.metric("elmo_answer_bytes") > 0)
            assert server.stop(60) == 1
            asking.join()
            half.settimeout(60)
            cut = half.recv(65536)

    assert answers[0].status_code == 503
    assert answers[0].headers["content-type"] == "application/problem+json"
    assert cut.startswith(b"HTTP/1.1 503 ")
    assert "Traceback" not in server.log


def test_the_last_line_of_the_start_is_the_address_to_open(server: Running) -> None:
    server.until(lambda: "Serving " in server.log)
    lines = server.log.splitlines()

    (ready,) = [line for line in lines if "Serving small on " in line]
    assert "Ready: " not in server.log  # which is for a terminal
    assert f"Serving small on {server.url} (docs: /docs)" in ready


def test_the_first_steps_of_a_server_answer(server: Running) -> None:
    _, *steps = first_steps(server.url, needs_key=False).splitlines()
    shown = {line.split()[0]: line.split(maxsplit=1)[1] for line in steps}

    assert list(shown) == ["page", "curl", "docs", "metrics"]
    for name in ("page", "docs", "metrics"):
        assert httpx.get(shown[name].split()[0]).status_code == 200
    answer = json.loads(check_output(["bash", "-c", f"{shown['curl']} -sS"]))
    assert len(answer["embeddings"][0]) == answer["dimension"]
    with_key = first_steps(server.url, needs_key=True)
    assert '-H "Authorization: Bearer $ELMO_API_KEY"' in with_key
