"""Clients that are slow, greedy or wrong: each is bounded, and the others are answered."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import httpx
import pytest

from tests.support.processes import own_memory, shared_memory
from tests.support.raw_http import (
    GOOD,
    GUARD_SECONDS,
    HEAD,
    connected,
    problem,
    read,
    response,
    statuses,
)
from tests.support.servers import SMALL, Running, running

HEAD_BYTES = 1 << 16  # h11 accepts as much of a head or of trailers
PATIENCE = 2.0  # of `stern` with a client, seconds
TIMEOUT = 3.0  # of `stern` for a request, seconds
BODY = 1_000_000
CONNECTIONS = 12
GROWTH = 48e6  # bytes that a server may grow by, for all clients of this file together


@pytest.fixture(scope="module")
def stern(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that soon gives up a client: for clients that are slow."""
    folder = tmp_path_factory.mktemp("stern")
    with running(
        folder,
        model=SMALL,
        tasks=folder / "tasks",
        client_timeout_seconds=PATIENCE,
        request_timeout_seconds=TIMEOUT,
        max_body_bytes=BODY,
    ) as server:
        yield server


@pytest.fixture(scope="module")
def narrow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with small limits and much time: for clients that are greedy or wrong."""
    folder = tmp_path_factory.mktemp("narrow")
    with running(
        folder,
        model=SMALL,
        tasks=folder / "tasks",
        client_timeout_seconds=GUARD_SECONDS / 2,
        max_body_bytes=BODY,
        max_connections=CONNECTIONS,
    ) as server:
        httpx.post(server.url + "/embed", content=GOOD).raise_for_status()
        yield server


@pytest.fixture(scope="module")
def size_at_first(narrow_server: Running) -> float:
    return memory(narrow_server)


@pytest.fixture(autouse=True)
def others_are_answered(narrow_server: Running, size_at_first: float) -> Iterator[None]:
    yield
    with narrow_server.client() as client:
        assert client.post("/embed", content=GOOD).status_code == 200
        assert client.get("/health/ready").status_code == 200
    assert memory(narrow_server) - size_at_first < GROWTH


def memory(server: Running) -> float:
    """Return the bytes that the server process holds, shared memory included."""
    return 1e6 * (own_memory(server.pid) + shared_memory(server.pid))


def trickle(connection: socket.socket, data: bytes) -> None:
    """Send a byte ten times a second, until the server responds or closes."""
    for index in range(len(data)):
        try:
            connection.sendall(data[index : index + 1])
            connection.settimeout(0.1)
            if connection.recv(1, socket.MSG_PEEK) is not None:
                break
        except TimeoutError:
            continue
        except OSError:
            break
    connection.settimeout(GUARD_SECONDS)


def test_a_head_that_trickles_is_given_up(stern: Running) -> None:
    start = time.monotonic()
    with connected(stern) as connection:
        trickle(connection, HEAD + b"X-Long: " + b"a" * 1_000)
        members = problem(read(connection), 408, "request-timeout")

    assert time.monotonic() - start > PATIENCE * 0.9
    assert "ELMO_CLIENT_TIMEOUT_SECONDS" in members["detail"]


@pytest.mark.parametrize("path", [b"POST /embed", b"PUT /tasks/slow"])
def test_a_body_that_stops_is_given_up(stern: Running, path: bytes) -> None:
    start = time.monotonic()
    with connected(stern) as connection:
        connection.sendall(
            path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 900\r\n\r\n{"
        )

        members = problem(read(connection), 504, "deadline-exceeded")

    assert members["detail"] == f"The body had not come within {TIMEOUT:g} s."
    assert time.monotonic() - start > TIMEOUT * 0.9


@pytest.mark.parametrize("body", [b"", b'{"sentences": [["' + b"a" * 800])
def test_a_client_can_set_a_shorter_time_for_its_body(narrow_server: Running, body: bytes) -> None:
    with connected(narrow_server) as connection:
        connection.sendall(
            HEAD + b"X-Request-Timeout: 0.5\r\nConnection: close\r\nContent-Length: 900\r\n\r\n"
        )
        trickle(connection, body)

        members = problem(read(connection), 504, "deadline-exceeded")

    assert members["detail"] == "The body had not come within 0.5 s."


def test_a_body_over_the_limit_is_refused_before_it_is_read(stern: Running) -> None:
    with connected(stern) as connection:
        connection.sendall(HEAD + b"Content-Length: 999999999999\r\n\r\n")

        members = problem(read(connection), 413, "too-large")
        assert "999999999999" in members["detail"]


def test_a_body_over_the_limit_without_a_length_is_refused_where_it_goes_over(
    stern: Running,
) -> None:
    chunk = b"%x\r\n" % 10_000 + b" " * 10_000 + b"\r\n"
    with connected(stern) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(BODY // 10_000 + 1):
            connection.sendall(chunk)

        problem(read(connection), 413, "too-large")


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
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
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
def test_bytes_that_are_not_http_are_refused(narrow_server: Running, sent: bytes) -> None:
    with connected(narrow_server) as connection:
        connection.sendall(sent)

        assert read(connection).startswith(b"HTTP/1.1 400 ")


def test_a_client_that_sends_all_before_it_reads_gets_the_refusal_of_a_large_body(
    narrow_server: Running,
) -> None:
    size = 32 << 20  # more than the kernel keeps for a reader
    with connected(narrow_server) as connection:
        with suppress(ConnectionError):  # the connection is closed meanwhile
            connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % size + bytes(size))

        problem(read(connection), 413, "too-large")


def test_nothing_is_answered_twice_when_nonsense_follows_a_request(narrow_server: Running) -> None:
    with connected(narrow_server) as connection:
        connection.sendall(b"GET /info HTTP/1.1\r\nHost: x\r\n\r\n\x00\x00nonsense\r\n\r\n")

        assert re.findall(rb"HTTP/1.1 (\d+)", read(connection)) == [b"200", b"400"]


@pytest.mark.parametrize("line", [b"X-Huge: " + b"a" * 99, b"X: y\r\n" * 20])
def test_a_head_without_an_end_is_refused(narrow_server: Running, line: bytes) -> None:
    """The client can be ahead by the buffers of the kernel; the server's memory is bounded."""
    sent = 0
    with connected(narrow_server) as connection, suppress(ConnectionError):
        connection.sendall(HEAD + b"X-Huge: ")
        while sent < 1_000 * HEAD_BYTES:
            connection.sendall(line * 40)
            sent += 40 * len(line)

    assert HEAD_BYTES * 0.9 < sent < 1_000 * HEAD_BYTES


def test_a_head_that_is_too_long_is_answered(narrow_server: Running) -> None:
    with connected(narrow_server) as connection:
        start = HEAD + b"X-Huge: "
        # One byte too many: a connection that is closed with bytes unread loses its response.
        connection.sendall(start + b"a" * (HEAD_BYTES + 1 - len(start)))

        assert read(connection).startswith(b"HTTP/1.1 400 ")


def test_a_head_of_many_kilobytes_is_taken(narrow_server: Running) -> None:
    headers = {f"X-{index}": "a" * 1_000 for index in range(HEAD_BYTES // 1_100)}

    assert httpx.get(narrow_server.url + "/info", headers=headers).status_code == 200


def test_connections_over_the_limit_are_refused_and_the_first_ones_are_served(
    narrow_server: Running,
) -> None:
    request = b"GET /info HTTP/1.1\r\nHost: x\r\n\r\n"
    with ExitStack() as stack:
        kept = [stack.enter_context(connected(narrow_server)) for _ in range(CONNECTIONS)]
        for connection in kept:
            connection.sendall(request)
            assert response(connection).startswith(b"HTTP/1.1 200 ")
        surplus = stack.enter_context(connected(narrow_server))
        surplus.sendall(request)
        refusal = read(surplus)
        probe = httpx.get(narrow_server.url + "/health/live")
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


def test_connections_far_over_the_limit_are_closed(narrow_server: Running) -> None:
    with ExitStack() as stack:
        for _ in range(2 * CONNECTIONS):
            stack.enter_context(connected(narrow_server))
        one_more = stack.enter_context(connected(narrow_server))

        assert read(one_more) == b""  # long before it has had its time for a head


def test_a_flood_of_pipelined_requests_waits_for_its_responses_to_be_read(
    narrow_server: Running,
) -> None:
    """The requests stay in the client's buffers; the fixture checks the server's memory."""
    request = b"GET /info HTTP/1.1\r\nHost: x\r\n\r\n" * 500
    sent = 0
    with connected(narrow_server) as connection:
        connection.settimeout(PATIENCE)
        with suppress(OSError):
            for _ in range(2_000):
                connection.sendall(request)
                sent += len(request)

    assert sent < 2_000 * len(request)


def test_a_few_requests_at_once_are_answered_in_order(narrow_server: Running) -> None:
    ids = [b"id-%d" % index for index in range(20)]
    with connected(narrow_server) as connection:
        connection.sendall(
            b"".join(
                b"GET /info HTTP/1.1\r\nHost: x\r\nX-Request-Id: " + name + b"\r\n"
                b"Connection: " + (b"close" if name == ids[-1] else b"keep-alive") + b"\r\n\r\n"
                for name in ids
            )
        )
        answers = read(connection)

    assert re.findall(rb"x-request-id: (\S+)", answers) == ids


def test_a_client_that_waits_for_100_continue_gets_it(narrow_server: Running) -> None:
    with connected(narrow_server) as connection:
        connection.sendall(
            HEAD + b"Expect: 100-continue\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n" % len(GOOD)
        )
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(GOOD)

        assert read(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("target", "fields", "status"),
    [
        ("POST /embed", "Content-Length: 2000000", 413),
        ("POST /embed", "Content-Length: 9\r\nContent-Type: text/xml", 415),
        ("POST /embed", "Transfer-Encoding: chunked\r\nX-Request-Timeout: soon", 422),
        ("POST /nothing", "Content-Length: 9", 404),
        ("PATCH /embed", "Content-Length: 9", 405),
    ],
)
def test_a_refused_expectation_ends_the_connection(
    narrow_server: Running, target: str, fields: str, status: int
) -> None:
    """The client may or may not send the body: what follows could be that or a request."""
    with connected(narrow_server) as connection:
        head = f"{target} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n{fields}\r\n\r\n"
        connection.sendall(head.encode())
        answer = read(connection)

    assert statuses(answer) == [status]
    assert b"\r\nconnection: close\r\n" in answer
