"""A server short of memory, descriptors or time refuses requests with 503 and recovers."""

from __future__ import annotations

import json
import resource
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.support.servers import SMALL, Running, running

MIB = 1 << 20
FEW_FILES = ("sh", "-c", 'ulimit -n 64; exec "$0" "$@"', Path(sys.executable).with_name("elmo"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, model=SMALL, max_body_bytes=128 * MIB) as server:
        yield server


def is_ready(server: Running) -> bool:
    try:
        return httpx.get(server.url + "/health/ready").status_code == 200
    except httpx.TransportError:
        return False


def limit(server: Running, kind: int, value: int) -> tuple[int, int]:
    """Set a limit of the server's process and return the one before."""
    hard = resource.prlimit(server.pid, kind)[1]
    return resource.prlimit(server.pid, kind, (value, hard))


def first_unused_descriptor(server: Running) -> int:
    used = {int(file.name) for file in Path(f"/proc/{server.pid}/fd").iterdir()}
    return next(number for number in range(len(used) + 1) if number not in used)


def address_space(server: Running) -> int:
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[0])
    return pages * resource.getpagesize()


@pytest.mark.long
def test_a_body_that_finds_no_memory_is_lost_alone(server: Running) -> None:
    large = json.dumps({"sentences": [["large"]]}).encode() + b" " * (64 * MIB)
    small = json.dumps({"sentences": [["small"]]}).encode()
    assert asked(server.url, small) == 200
    before = limit(server, resource.RLIMIT_AS, address_space(server) + 20 * MIB)
    # The memory may lack where the body is received, before there is a request to answer.
    assert asked(server.url, large) in {0, 503}
    assert asked(server.url, small) == 200
    resource.prlimit(server.pid, resource.RLIMIT_AS, before)

    assert asked(server.url, large) == 200
    assert server.metric("elmo_worker_restarts_total") == 0


@pytest.mark.long
def test_a_batch_needs_no_descriptor(server: Running) -> None:
    with server.client() as client:
        assert client.get("/health/ready").status_code == 200  # the connection is open
        limit(server, resource.RLIMIT_NOFILE, first_unused_descriptor(server))
        responses = [client.post("/embed", json={"sentences": [["a"]]}) for _ in range(3)]

    assert [response.status_code for response in responses] == [200] * 3
    assert "Too many open files" not in server.log


def asked(url: str, body: bytes) -> int:
    """Ask on a connection of its own; return the status, 0 for a connection that was closed."""
    headers = {"content-type": "application/json"}
    try:
        return httpx.post(url + "/embed", content=body, headers=headers, timeout=None).status_code
    except httpx.TransportError:
        return 0


def text(number: int) -> bytes:
    """Return a body that is larger than the server parses itself."""
    return json.dumps({"sentences": [[f"word{number}"] * 400] * 20}).encode()


@pytest.mark.faults
def test_with_few_descriptors_every_client_gets_an_answer(tmp_path: Path) -> None:
    with running(tmp_path, model=SMALL, command=(*FEW_FILES, "serve")) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with ExitStack() as idle, ThreadPoolExecutor(30) as clients:
            for _ in range(30):
                idle.enter_context(socket.create_connection((host, int(port))))
            statuses = list(clients.map(asked, [server.url] * 120, map(text, range(120))))
        server.until(lambda: is_ready(server))

        assert set(statuses) <= {0, 200, 503}
        assert asked(server.url, text(0)) == 200
        assert httpx.get(server.url + "/health/live").status_code == 200
