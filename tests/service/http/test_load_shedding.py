"""What the queue has no room for is refused before it is read, and the connection goes on."""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.servers import SMALL, Running, running

LIMIT = 400_000
# Once computed, and admitted for all: a quarter of the queue.
LARGE = json.dumps({"sentences": [["a"] * 18] * 5_000, "pooling": "mean", "layers": "top"}).encode()
GOOD = b'{"sentences": [["a"]], "layers": "top", "pooling": "mean"}'
PIECE = 1 << 16


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(
        tmp_path_factory.mktemp("door"),
        model=SMALL,
        max_queue_tokens=LIMIT,
        request_timeout_seconds=600,
    ) as server:
        for body in (LARGE, GOOD):  # it knows now what bodies of such a size hold
            httpx.post(server.url + "/embed", content=body, timeout=60).raise_for_status()
        yield server


@contextmanager
def full(server: Running) -> Iterator[None]:
    """Keep the queue so full that nothing large has room, for some seconds at least."""
    bulk = {"sentences": [[f"{i}-{j}" for j in range(38)] for i in range(9_500)], "pooling": "mean"}
    content = json.dumps(bulk | {"layers": "top"}).encode()
    with socket.create_connection(address(server)) as connection:
        connection.sendall(head(len(content)))
        sending = threading.Thread(target=connection.sendall, args=(content,))
        sending.start()
        sending.join()
        wait_until(server, lambda tokens: tokens > 0.9 * LIMIT)
        yield
        assert server.metric("elmo_queue_tokens") > 0.8 * LIMIT, "it was not full all the time"
    wait_until(server, lambda tokens: tokens == 0)


def wait_until(server: Running, condition: Callable[[float], bool]) -> None:
    end = time.monotonic() + 30
    while not condition(server.metric("elmo_queue_tokens")):
        assert time.monotonic() < end
        time.sleep(0.02)


def address(server: Running) -> tuple[str, int]:
    parts = urlsplit(server.url)
    assert parts.hostname is not None and parts.port is not None
    return parts.hostname, parts.port


def head(length: int, *fields: str) -> bytes:
    lines = ["POST /embed HTTP/1.1", "Host: x", f"Content-Length: {length}", *fields]
    return "\r\n".join([*lines, "", ""]).encode()


@contextmanager
def connected(server: Running) -> Iterator[socket.socket]:
    with socket.create_connection(address(server), timeout=20) as connection:
        yield connection


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


def test_what_has_no_room_is_refused_before_its_body_comes(server: Running) -> None:
    with full(server), connected(server) as connection:
        connection.sendall(head(len(LARGE), "X-Request-Id: unread-1"))
        status, fields, body = answer(connection)

    problem = json.loads(body)
    assert status == problem["status"] == 503
    assert problem["type"].endswith(":overloaded")
    assert fields["x-request-id"] == problem["instance"] == "unread-1"
    assert int(fields["retry-after"]) >= 1
    assert fields["content-type"] == "application/problem+json"
    assert "date" in fields and "connection" not in fields


def test_the_connection_goes_on_after_the_body_that_nobody_read(server: Running) -> None:
    with full(server), connected(server) as connection:
        for _ in range(3):
            connection.sendall(head(len(LARGE)))
            for start in range(0, len(LARGE), PIECE):
                connection.sendall(LARGE[start : start + PIECE])
            assert answer(connection)[0] == 503
        connection.sendall(head(len(GOOD)) + GOOD)

        assert answer(connection)[0] == 200


def test_requests_sent_ahead_are_answered_in_their_order(server: Running) -> None:
    large = head(len(LARGE)) + LARGE
    small = head(len(GOOD), "X-Request-Timeout: 500") + GOOD
    with full(server), connected(server) as connection:
        sending = threading.Thread(target=connection.sendall, args=(large + small + large + small,))
        sending.start()
        statuses = [answer(connection)[0] for _ in range(4)]
        sending.join()

    assert statuses == [503, 200, 503, 200]


def test_what_has_room_is_answered_beside(server: Running) -> None:
    with full(server), server.client() as client:
        assert client.post("/embed", content=GOOD).status_code == 200


def test_once_there_is_room_it_is_read(server: Running) -> None:
    with full(server), server.client() as client:
        assert client.post("/embed", content=LARGE).status_code == 503
    with server.client() as client:
        assert client.post("/embed", content=LARGE).status_code == 200


def test_whoever_asks_whether_to_send_the_body_is_told_to(server: Running) -> None:
    with full(server), connected(server) as connection:
        connection.sendall(head(len(LARGE), "Expect: 100-continue"))
        assert connection.recv(1_000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(LARGE)

        assert answer(connection)[0] == 503


def test_what_is_wrong_with_the_head_is_still_said(server: Running) -> None:
    with full(server), connected(server) as connection:
        connection.sendall(head(len(GOOD), "X-Request-Timeout: soon") + GOOD)

        assert answer(connection)[0] == 422


@pytest.mark.parametrize("field", ["Content-Encoding: gzip", "Content-Type: text/xml"])
def test_what_is_no_json_is_told_so_and_not_to_come_again(server: Running, field: str) -> None:
    with full(server), connected(server) as connection:
        connection.sendall(head(len(LARGE), field) + LARGE)

        assert answer(connection)[0] == 415


def test_what_never_has_room_is_told_so_and_not_to_come_again(server: Running) -> None:
    sentences = [[f"{i}-{j}" for j in range(45)] for i in range(9_500)]
    content = json.dumps({"sentences": sentences, "pooling": "mean"}).encode()
    idle = httpx.post(server.url + "/embed", content=content, timeout=60)
    with full(server):
        beside = httpx.post(server.url + "/embed", content=content, timeout=60)

    for answered in (idle, beside):
        assert answered.status_code == 413
        assert "ELMO_MAX_QUEUE_TOKENS" in answered.json()["detail"]


def test_refusals_are_counted_one_by_one_and_logged_together(server: Running) -> None:
    def refused() -> float:
        return server.metric(
            "elmo_http_requests_total", method="POST", route="/embed", status="503"
        )

    def timed() -> float:
        return server.metric("elmo_http_request_duration_seconds_count", route="/embed")

    def told() -> tuple[int, int]:
        found = re.findall(r"refused unread requests=(\d+)", server.log)
        return len(found), sum(map(int, found))

    time.sleep(1.2)  # what others caused has been told
    before, timed_before, (lines, requests) = refused(), timed(), told()
    access = server.log.count(" status=503")
    with full(server), connected(server) as connection:
        for _ in range(20):
            connection.sendall(head(len(LARGE)))
            assert answer(connection)[0] == 503
            connection.sendall(LARGE)
        assert (refused() - before, timed() - timed_before) == (20, 20)
        time.sleep(1.2)
    assert told()[1] - requests == 20
    assert told()[0] - lines <= 4
    assert server.log.count(" status=503") == access


def test_a_body_is_thought_to_hold_as_little_as_those_of_its_size_held(server: Running) -> None:
    few = json.dumps({"sentences": [["a" * len(LARGE)]], "pooling": "mean"}).encode()
    with server.client() as client:  # the last of this file: it takes long to be forgotten
        client.post("/embed", content=few).raise_for_status()
        with full(server):
            assert client.post("/embed", content=few).status_code == 200
            assert client.post("/embed", content=LARGE).status_code == 503  # as it was read


def test_a_client_that_never_sends_the_rest_is_dropped(tmp_path: Path) -> None:
    with running(
        tmp_path,
        model=SMALL,
        max_queue_tokens=LIMIT,
        request_timeout_seconds=600,
        client_timeout_seconds=0.5,
    ) as server:
        httpx.post(server.url + "/embed", content=LARGE, timeout=60).raise_for_status()
        with full(server), connected(server) as connection:
            connection.sendall(head(len(LARGE)) + LARGE[:100])
            assert answer(connection)[0] == 503
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""
