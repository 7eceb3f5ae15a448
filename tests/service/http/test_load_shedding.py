"""Load shedding: where the wait is too long, requests are refused from their headers alone."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.support.engines import until
from tests.support.gated_server import close_gate, gated, open_gate
from tests.support.http_messages import HEAD, connected
from tests.support.in_process import in_process
from tests.support.servers import Running

INTERACTIVE = [  # eight requests of 900 tokens, each of which fits into a batch
    {"sentences": [[f"{n}-{i}-{j}" for j in range(13)] for i in range(60)], "layers": "top"}
    for n in range(8)
]
HURRY = "X-Request-Timeout: 0.0001"
"""Half of it is less than the wait for seven batches, however fast the worker is."""

LARGE = json.dumps({"sentences": [[f"{n:04}"] * 7 for n in range(500)]}).encode()
GOOD = b'{"sentences": [["a"]], "layers": "top", "pooling": "mean"}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gated(tmp_path_factory.mktemp("shedding"), request_timeout_seconds=600) as server:
        yield server


@contextmanager
def full(server: Running) -> Iterator[None]:
    """Hold interactive requests behind a closed gate."""
    close_gate(server)
    held = [
        threading.Thread(
            target=lambda body=body: httpx.post(
                server.url + "/embed", json=body, timeout=600
            ).raise_for_status()
        )
        for body in INTERACTIVE
    ]
    for each in held:
        each.start()
    try:
        server.until(lambda: server.metric("elmo_queue_tokens") > 6 * 900)
        yield
    finally:
        open_gate(server)
        for each in held:
            each.join()


def head(length: int, *fields: str) -> bytes:
    return HEAD + "\r\n".join([f"Content-Length: {length}", *fields, "", ""]).encode()


def answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Read one answer, and nothing of the next."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        some = connection.recv(1)
        assert some, data
        data += some
    lines = data.decode().split("\r\n")
    fields = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines[1:] if line)}
    body = b""
    while len(body) < int(fields["content-length"]):
        body += connection.recv(int(fields["content-length"]) - len(body))
    return int(lines[0].split()[1]), fields, body


def test_a_request_without_room_is_refused_before_its_body_comes(server: Running) -> None:
    with full(server), connected(server) as connection:
        connection.sendall(head(len(LARGE), "X-Request-Id: unread-1", HURRY))
        status, fields, body = answer(connection)

    problem = json.loads(body)
    assert status == problem["status"] == 503
    assert problem["type"].endswith(":overloaded")
    assert fields["x-request-id"] == problem["instance"] == "unread-1"
    assert int(fields["retry-after"]) >= 1
    assert fields["content-type"] == "application/problem+json"
    assert "date" in fields and "connection" not in fields


def test_requests_on_one_connection_are_answered_in_their_order(server: Running) -> None:
    """Also behind bodies that were not read, and once there is room again."""
    large, bad = head(len(LARGE), HURRY) + LARGE, head(5) + b"[1, 2"
    with full(server), connected(server) as connection:
        sending = threading.Thread(target=connection.sendall, args=(large + bad + large + bad,))
        sending.start()
        statuses = [answer(connection)[0] for _ in range(4)]
        sending.join()
        open_gate(server)
        connection.sendall(head(len(GOOD)) + GOOD)
        statuses.append(answer(connection)[0])

    assert statuses == [503, 400, 503, 400, 200]


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        ("/embed", {}, 503),
        ("/v1/embeddings", {}, 503),
        ("/neighbours", {}, 503),
        ("/score", {}, 503),
        ("/substitutes", {}, 503),
        ("/tokenize", {}, 408),  # computes nothing: its time is over before its body came
        ("/embed", {"X-Request-Timeout": "soon"}, 422),
        ("/embed", {"Content-Type": "text/xml"}, 415),
    ],
)
async def test_what_computes_is_refused_unread_and_other_errors_come_first(
    path: str, fields: dict[str, str], status: int
) -> None:
    async def unread() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    hurry = {"Content-Type": "application/json", "X-Request-Timeout": "0.0001", **fields}
    async with in_process(is_open=False) as serving:
        post = serving.client.post
        held = [asyncio.ensure_future(post("/embed", json=each)) for each in INTERACTIVE]
        await until(lambda: serving.server.engine.queues["small"].tokens > 6 * 900)
        answer = await post(path, content=unread(), headers=hurry)
        serving.worker.open()

        assert answer.status_code == status
        assert [(await each).status_code for each in held] == [200] * len(held)
