"""Clients that are slow, greedy or wrong: each is bounded, and the others are answered."""

import gzip
import json
import re
import socket
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from elmo_serve.errors import TYPE_PREFIX
from tests.support.processes import own_memory, shared_memory
from tests.support.servers import SMALL, Running, running

HEAD_BYTES = 1 << 16  # h11 accepts as much of a head or of trailers
PATIENCE = 0.6
TIMEOUT = 5.0
BODY = 1_000_000
CONNECTIONS = 12
LATE = 4.0  # seconds beside those promised, on a machine that has other things to do
GROWTH = 48e6  # bytes that a front may grow by, for all clients of this file together

HEAD = b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
GOOD = b'{"sentences": [["a"]], "layers": "top"}'


@pytest.fixture(scope="module")
def stern(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of little patience."""
    folder = tmp_path_factory.mktemp("stern")
    with running(
        folder,
        model=SMALL,
        tasks=folder / "tasks",
        client_timeout_seconds=PATIENCE,
        request_timeout_seconds=TIMEOUT,
        max_body_bytes=BODY,
        max_connections=CONNECTIONS,
    ) as server:
        httpx.post(server.url + "/embed", content=GOOD).raise_for_status()
        yield server


@pytest.fixture(scope="module")
def generous(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that has the time for large answers, and as little patience."""
    with running(
        tmp_path_factory.mktemp("generous"), model=SMALL, client_timeout_seconds=PATIENCE
    ) as server:
        yield server


@pytest.fixture(scope="module")
def size_at_first(stern: Running) -> float:
    return memory(stern)


@pytest.fixture(autouse=True)
def others_are_answered(stern: Running, size_at_first: float) -> Iterator[None]:
    yield
    with stern.client() as client:
        assert client.post("/embed", content=GOOD).status_code == 200
        assert client.get("/health/ready").status_code == 200
    assert memory(stern) - size_at_first < GROWTH


def memory(server: Running) -> float:
    """Return the bytes that the server process holds, shared memory included."""
    return 1e6 * (own_memory(server.pid) + shared_memory(server.pid))


@contextmanager
def connected(server: Running) -> Iterator[socket.socket]:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        yield connection


def read(connection: socket.socket) -> bytes:
    """Return what comes until the server closes the connection."""
    data = b""
    with suppress(ConnectionResetError):
        while some := connection.recv(65536):
            data += some
    return data


def response(connection: socket.socket) -> bytes:
    """Return one response with its body."""
    data = b""
    while (head := re.search(rb"content-length: (\d+)(?s:.*?)\r\n\r\n", data)) is None:
        data += connection.recv(65536)
    while len(data) < head.end() + int(head[1]):
        data += connection.recv(65536)
    return data


def problem(answer: bytes, status: int, slug: str) -> dict[str, Any]:
    """Check that an answer is a whole problem document with its request id."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer[:500]
    assert b"content-type: application/problem+json" in head
    assert b"content-length: %d" % len(body) in head
    members: dict[str, Any] = json.loads(body)
    assert members["type"] == TYPE_PREFIX + slug
    assert members["status"] == status
    assert f"x-request-id: {members['instance']}".encode() in head
    return members


def trickle(connection: socket.socket, data: bytes, seconds: float) -> None:
    """Send a byte now and then, until the other side has had enough."""
    connection.setblocking(True)
    end = time.monotonic() + seconds
    for index in range(len(data)):
        if time.monotonic() > end:
            return
        try:
            connection.sendall(data[index : index + 1])
            connection.settimeout(0.1)
            if connection.recv(1, socket.MSG_PEEK) is not None:
                return
        except TimeoutError:
            continue
        except OSError:
            return


def test_a_head_that_trickles_is_given_up(stern: Running) -> None:
    with connected(stern) as connection:
        start = time.monotonic()
        trickle(connection, HEAD + b"X-Long: " + b"a" * 1_000, PATIENCE + LATE)
        connection.settimeout(20)
        members = problem(read(connection), 408, "request-timeout")

    assert PATIENCE * 0.9 < time.monotonic() - start < PATIENCE + LATE
    assert "ELMO_CLIENT_TIMEOUT_SECONDS" in members["detail"]


def test_a_connection_on_which_nothing_comes_is_closed(stern: Running) -> None:
    with connected(stern) as connection:
        start = time.monotonic()

        assert read(connection) == b""

    assert PATIENCE * 0.9 < time.monotonic() - start < PATIENCE + LATE


def test_the_head_of_a_second_request_is_given_up_too(stern: Running) -> None:
    with connected(stern) as connection:
        connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")

        connection.sendall(b"GET /info HTTP/1.1\r\nHost:")

        problem(read(connection), 408, "request-timeout")


@pytest.mark.parametrize("path", [b"POST /embed", b"PUT /tasks/slow"])
def test_a_body_that_stops_is_given_up(stern: Running, path: bytes) -> None:
    with connected(stern) as connection:
        start = time.monotonic()
        connection.sendall(
            path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 900\r\n\r\n{"
        )

        members = problem(read(connection), 504, "deadline-exceeded")

    assert members["detail"] == f"The body had not come within {TIMEOUT:g} s."
    assert TIMEOUT * 0.9 < time.monotonic() - start < TIMEOUT + LATE


@pytest.mark.parametrize("body", [b"", b'{"sentences": [["' + b"a" * 800])
def test_a_client_can_ask_for_less_patience_with_its_body(stern: Running, body: bytes) -> None:
    with connected(stern) as connection:
        start = time.monotonic()
        connection.sendall(
            HEAD + b"X-Request-Timeout: 0.5\r\nConnection: close\r\nContent-Length: 900\r\n\r\n"
        )
        trickle(connection, body, TIMEOUT)
        connection.settimeout(20)

        problem(read(connection), 504, "deadline-exceeded")

    assert time.monotonic() - start < TIMEOUT * 0.9


def test_a_body_over_the_limit_is_refused_unread(stern: Running) -> None:
    with connected(stern) as connection:
        connection.sendall(HEAD + b"Content-Length: 999999999999\r\n\r\n")

        members = problem(connection.recv(65536), 413, "too-large")
        assert "999999999999" in members["detail"]
        assert read(connection) == b"", "nor is the rest waited for"


def test_a_body_over_the_limit_without_a_length_is_refused_where_it_goes_over(
    stern: Running,
) -> None:
    chunk = b"%x\r\n" % 10_000 + b" " * 10_000 + b"\r\n"
    sent = 0
    with connected(stern) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        with suppress(OSError):
            while sent < 200 * BODY:
                connection.sendall(chunk)
                sent += len(chunk)
                connection.settimeout(0.0)
                with suppress(BlockingIOError):
                    problem(connection.recv(65536), 413, "too-large")
                    break
                connection.settimeout(20)
        connection.settimeout(20)
        start = time.monotonic()
        with suppress(OSError):
            while time.monotonic() - start < PATIENCE + LATE:
                connection.sendall(chunk)

    assert sent < 20 * BODY
    assert time.monotonic() - start < PATIENCE + LATE, "and is cut off when it goes on"


@pytest.mark.parametrize(
    "body",
    [
        b"ZZ\r\nabc\r\n0\r\n\r\n",
        b"5\r\nabcdefgh\r\n0\r\n\r\n",
        b"-1\r\n\r\n",
        b"FFFFFFFFFFFFFFFFFF\r\nabc",
        b"\r\n\r\n\r\n",
        b"5;" + b"x" * 70_000,
    ],
)
def test_chunked_nonsense_is_refused(stern: Running, body: bytes) -> None:
    with connected(stern) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body)

        answer = read(connection)

    assert answer[9:12] in (b"400", b"504"), answer


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a client that speaks TLS
        b"\x00" * 1_000,
        b"nonsense\r\n\r\n",
        b"GET /info HTTP/9.9\r\n\r\n",
        b"GET /info HTTP/1.1\r\nHost: x\r\nNo colon\r\n\r\n",
        b"GET /info HTTP/1.1\r\nHost: x\r\n: no name\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 1e3\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(stern: Running, sent: bytes) -> None:
    with connected(stern) as connection:
        connection.sendall(sent)

        assert read(connection).startswith(b"HTTP/1.1 400 ")


def test_nothing_is_answered_twice_when_nonsense_follows_a_request(stern: Running) -> None:
    with connected(stern) as connection:
        connection.sendall(b"GET /info HTTP/1.1\r\nHost: x\r\n\r\n\x00\x00nonsense\r\n\r\n")

        assert re.findall(rb"HTTP/1.1 (\d+)", read(connection)) == [b"200", b"400"]


@pytest.mark.parametrize("line", [b"X-Huge: " + b"a" * 99, b"X: y\r\n" * 20])
def test_a_head_without_an_end_is_refused(server: Running, line: bytes) -> None:
    sent = 0
    with connected(server) as connection:
        connection.sendall(HEAD + b"X-Huge: ")
        with suppress(OSError):
            while sent < 100 * HEAD_BYTES:
                connection.sendall(line * 40)
                sent += 40 * len(line)
                time.sleep(0.001)  # the answer is lost where the server resets a busy connection
                connection.settimeout(0.0)
                with suppress(BlockingIOError):
                    assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")
                    break
                connection.settimeout(20)

    assert HEAD_BYTES * 0.9 < sent < 20 * HEAD_BYTES


def test_a_head_of_many_kilobytes_is_taken(stern: Running) -> None:
    headers = {f"X-{index}": "a" * 1_000 for index in range(HEAD_BYTES // 1_100)}

    assert httpx.get(stern.url + "/info", headers=headers).status_code == 200


def large(last: bytes = b"") -> bytes:
    """Return a request for some 7 MB, more than the kernel keeps for a reader."""
    body = json.dumps({"sentences": [["a"] * 300] * 60}).encode()
    accept = b"Accept: application/x-npz\r\nContent-Length: %d\r\n\r\n" % len(body)
    return HEAD + last + accept + body


@pytest.mark.parametrize("last", [b"", b"Connection: close\r\n"])
def test_an_answer_that_is_not_read_is_dropped(generous: Running, last: bytes) -> None:
    with connected(generous) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.sendall(large(last))
        assert connection.recv(12) == b"HTTP/1.1 200"
        assert generous.metric("elmo_answer_bytes") > 0
        deadline = time.monotonic() + PATIENCE + LATE
        while generous.metric("elmo_answer_bytes") and time.monotonic() < deadline:
            time.sleep(0.05)

        assert generous.metric("elmo_answer_bytes") == 0
        assert "response not read" in generous.log


def test_an_answer_that_is_read_slowly_arrives(generous: Running) -> None:
    with connected(generous) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        connection.sendall(large(b"Connection: close\r\n"))
        answer = connection.recv(65_536)
        start = time.monotonic()
        while time.monotonic() - start < 2.5 * PATIENCE:
            time.sleep(0.1 * PATIENCE)
            answer += connection.recv(65_536)
        answer += read(connection)

    head, _, rest = answer.partition(b"\r\n\r\n")
    assert f"content-length: {len(rest)}".encode() in head


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, identity", "x-unknown"])
@pytest.mark.parametrize("path", ["/embed", "/tasks/packed"])
def test_compressed_bodies_are_refused(stern: Running, coding: str, path: str) -> None:
    bomb = (gzip.compress if "gzip" in coding else zlib.compress)(b" " * 10_000_000)

    answer = httpx.request(
        "POST" if path == "/embed" else "PUT",
        stern.url + path,
        content=bomb,
        headers={"Content-Encoding": coding, "Content-Type": "application/json"},
    )

    assert answer.status_code == 415
    assert answer.headers["accept-encoding"] == "identity"
    assert coding.partition(",")[0] in answer.json()["detail"]


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 900_000,
        b"[" * 450_000 + b"]" * 450_000,
        b'{"sentences": ' + b"[" * 400_000 + b"]" * 400_000 + b"}",
        b'{"a":' * 150_000 + b"1" + b"}" * 150_000,
        b'{"sentences": [["a"]], "mix": ' + b'{"weights":' * 50_000 + b"1" + b"}" * 50_001,
        b'{"sentences": [["\\ud800"]]}',
        b'{"sentences": [["\\udc00\\ud800"]]}',
        b'{"sentences": [["\xed\xa0\x80"]]}',
        b'{"sentences": [["a"]], "layers": [' + b"9" * 900_000 + b"]}",
    ],
)
def test_what_json_should_not_be_is_refused(stern: Running, content: bytes) -> None:
    answer = httpx.post(stern.url + "/embed", content=content, timeout=20)

    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.content) < 2_000


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 400, "NaN", "Infinity"])
def test_numbers_without_a_value_are_refused(stern: Running, number: str) -> None:
    content = f'{{"sentences": [["a"]], "mix": {{"weights": [{number}, 0, 0]}}}}'

    assert httpx.post(stern.url + "/embed", content=content).status_code in (400, 422)


def test_of_equal_keys_the_last_counts(stern: Running) -> None:
    content = b'{"sentences": [["a"]], "layers": "all", "layers": "top", "sentences": [["b", "c"]]}'

    body = httpx.post(stern.url + "/embed", content=content).json()

    assert body["usage"] == {"sentences": 1, "tokens": 2}
    assert len(body["embeddings"][0]) == 2


def test_connections_over_the_limit_are_told_so_and_the_first_ones_are_served(
    stern: Running,
) -> None:
    request = b"GET /info HTTP/1.1\r\nHost: x\r\n\r\n"
    with ExitStack() as stack:
        kept = [stack.enter_context(connected(stern)) for _ in range(CONNECTIONS)]
        for connection in kept:
            connection.sendall(request)
            assert response(connection).startswith(b"HTTP/1.1 200 ")
        surplus = stack.enter_context(connected(stern))
        surplus.sendall(request)
        refusal = read(surplus)
        probe = httpx.get(stern.url + "/health/live")
        kept[0].sendall(request)
        first = response(kept[0])

    members = problem(refusal, 503, "unavailable")
    assert re.search(rb"^retry-after: 1\r$", refusal, re.MULTILINE | re.IGNORECASE)
    assert b"connection: close" in refusal.lower()
    assert members["detail"] == (
        f"{CONNECTIONS} connections are open, no more are allowed (ELMO_MAX_CONNECTIONS)."
    )
    assert probe.status_code == 200
    assert probe.headers["connection"] == "close"
    assert first.startswith(b"HTTP/1.1 200 ")


def test_connections_far_over_the_limit_are_closed(stern: Running) -> None:
    with ExitStack() as stack:
        for _ in range(2 * CONNECTIONS):
            stack.enter_context(connected(stern))
        time.sleep(0.2)
        one_more = stack.enter_context(connected(stern))
        start = time.monotonic()

        assert read(one_more) == b""

    assert time.monotonic() - start < PATIENCE * 0.9


def test_a_flood_of_pipelined_requests_waits_for_its_responses_to_be_read(
    stern: Running,
) -> None:
    """The requests stay in the client's buffers; the fixture checks the server's memory."""
    request = b"GET /info HTTP/1.1\r\nHost: x\r\n\r\n" * 500
    sent = 0
    with connected(stern) as connection:
        connection.settimeout(PATIENCE)
        with suppress(OSError):
            for _ in range(2_000):
                connection.sendall(request)
                sent += len(request)

    assert sent < 2_000 * len(request)


def test_a_few_requests_at_once_are_answered_in_order(stern: Running) -> None:
    ids = [b"id-%d" % index for index in range(20)]
    with connected(stern) as connection:
        connection.sendall(
            b"".join(
                b"GET /info HTTP/1.1\r\nHost: x\r\nX-Request-Id: " + name + b"\r\n"
                b"Connection: " + (b"close" if name == ids[-1] else b"keep-alive") + b"\r\n\r\n"
                for name in ids
            )
        )
        answers = read(connection)

    assert re.findall(rb"x-request-id: (\S+)", answers) == ids


def test_a_body_is_asked_for_where_the_client_waits_for_that(stern: Running) -> None:
    with connected(stern) as connection:
        connection.sendall(
            HEAD + b"Expect: 100-continue\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n" % len(GOOD)
        )
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(GOOD)

        assert read(connection).startswith(b"HTTP/1.1 200 ")


def test_an_upgrade_that_is_not_spoken_is_passed_over(stern: Running) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "x"}

    assert httpx.get(stern.url + "/info", headers=headers).status_code == 200
