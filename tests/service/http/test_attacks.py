"""Clients that are slow, greedy or wrong: each is bounded, and the others are answered."""

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import httpx
import pytest

from elmo_serve.http.body import SMALL_BODY_BYTES
from elmo_serve.http.checks import PROBES
from tests.conftest import KEY
from tests.support.http_messages import (
    GOOD,
    GUARD_SECONDS,
    HEAD,
    JSON,
    connected,
    problem,
    read,
    response,
    statuses,
)
from tests.support.processes import own_memory, shared_memory
from tests.support.servers import SMALL, Running, running

MIB = 1 << 20
HEAD_BYTES = 1 << 16  # h11 accepts as much of a head or of trailers
BODY = MIB // 4
CONNECTIONS = 40
GROWTH = 48e6  # bytes that a server may grow by, for all clients of this file together


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with small limits and much time, which takes 4 MiB of bodies at once."""
    folder = tmp_path_factory.mktemp("strict")
    with running(
        folder,
        model=SMALL,
        tasks=folder / "tasks",
        client_timeout_seconds=GUARD_SECONDS / 2,
        max_body_bytes=BODY,
        max_connections=CONNECTIONS,
    ) as server:
        httpx.post(server.url + "/embed", content=GOOD, headers=JSON).raise_for_status()
        yield server


@pytest.fixture(scope="module")
def size_at_first(strict: Running) -> float:
    return memory(strict)


@pytest.fixture(autouse=True)
def others_are_answered(strict: Running, size_at_first: float) -> Iterator[None]:
    yield
    with strict.client() as client:
        assert client.post("/embed", content=GOOD, headers=JSON).status_code == 200
        assert client.get("/health/ready").status_code == 200
    assert memory(strict) - size_at_first < GROWTH


def memory(server: Running) -> float:
    """Return the bytes that the server process holds, shared memory included."""
    return 1e6 * (own_memory(server.pid) + shared_memory(server.pid))


# Bytes that are no request


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),  # a client that speaks TLS
        (b"\x00" * 1_000, 400),
        (b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /info HTTP/9.9\r\n\r\n", 400),
        (b"GET /info HTTP/2.0\r\nHost: a\r\n\r\n", 400),
        (b"GET /info HTTP/1.0\r\n\r\n", 200),
        (b"GET /info HTTP/1.1\r\n\r\n", 400),
        (b"GET /info HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET /info HTTP/1.1\r\nHost: x\r\nNo colon\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (HEAD + b"Content-Length: -1\r\n\r\n", 400),
        (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        (HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n", 400),
        (HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (HEAD.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\nabc\r\n0\r\n\r\n", 400),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;" + b"x" * 70_000, 400),
        (HEAD + b"X-Huge: " + b"a" * (HEAD_BYTES + 1 - len(HEAD) - 8), 400),
    ],
)
def test_bytes_that_are_no_clear_request_are_refused_and_the_connection_closed(
    strict: Running, sent: bytes, found: int
) -> None:
    with connected(strict) as connection:
        connection.sendall(sent)
        answer = read(connection)

    assert statuses(answer) in ([found], [400])
    assert (b"application/problem+json" in answer) == (found != 200)


def test_options_of_the_server_as_a_whole_are_answered(strict: Running) -> None:
    with connected(strict) as connection:
        connection.sendall(b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

        assert statuses(read(connection)) == [204]


def test_nonsense_in_the_middle_of_a_body_counts_as_it_is_answered(strict: Running) -> None:
    def counted(status: int) -> float:
        labels = {"method": "POST", "route": "/embed", "status": str(status)}
        return strict.metric("elmo_http_requests_total", **labels)

    before = counted(400), counted(499)
    with connected(strict) as connection:
        chunk = b"%x\r\n%s\r\n" % (SMALL_BODY_BYTES + 1, b" " * (SMALL_BODY_BYTES + 1))
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk)
        strict.until(lambda: strict.metric("elmo_receiving_bytes") > 0)
        connection.sendall(b"nonsense\r\n")

        problem(read(connection), 400, "malformed-request")
    strict.until(lambda: strict.metric("elmo_receiving_bytes") == 0)
    assert (counted(400), counted(499)) == (before[0] + 1, before[1])


def test_a_body_that_is_slower_than_its_time_is_no_failure_of_the_server(strict: Running) -> None:
    before = strict.metric("elmo_failures_total", reason="deadline")
    with connected(strict) as connection:
        connection.sendall(HEAD + b"X-Request-Timeout: 0.01\r\nContent-Length: 9\r\n\r\n{")

        answer = read(connection)
    problem(answer, 408, "request-timeout")
    assert b"connection: close" in answer.lower()
    assert strict.metric("elmo_failures_total", reason="deadline") == before


def test_nothing_is_answered_twice_when_nonsense_follows_a_request(strict: Running) -> None:
    with connected(strict) as connection:
        connection.sendall(b"GET /info HTTP/1.1\r\nHost: x\r\n\r\n\x00\x00nonsense\r\n\r\n")

        assert re.findall(rb"HTTP/1.1 (\d+)", read(connection)) == [b"200", b"400"]


def test_a_blank_line_after_a_response_does_not_hold_the_connection(strict: Running) -> None:
    with connected(strict) as connection:
        connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        first = connection.recv(12)
        connection.sendall(b"\r\n")

        assert statuses(first + read(connection)) == [200, 400]


@pytest.mark.parametrize(
    "start", [b"X-Huge: ", b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-T: "]
)
@pytest.mark.parametrize("line", [b"a" * 999, b"a\r\nX-T: " * 99])
def test_a_head_or_trailers_without_an_end_are_cut_off(
    strict: Running, start: bytes, line: bytes
) -> None:
    """The client can be ahead by the buffers of the kernel; the server's memory is bounded."""
    sent = 0
    with connected(strict) as connection, suppress(ConnectionError):
        connection.sendall(HEAD + start)
        while sent < 64 * MIB:
            connection.sendall(line)
            sent += len(line)

    assert HEAD_BYTES * 0.9 < sent < 64 * MIB


def test_a_head_of_many_kilobytes_is_taken(strict: Running) -> None:
    headers = {f"X-{index}": "a" * 1_000 for index in range(HEAD_BYTES // 1_100)}

    assert httpx.get(strict.url + "/info", headers=headers).status_code == 200


def test_a_key_in_a_trailer_is_no_key(narrow: Running) -> None:
    with connected(narrow) as connection:
        connection.sendall(
            HEAD
            + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"%x\r\n%s\r\n0\r\nAuthorization: Bearer %s\r\n\r\n" % (len(GOOD), GOOD, KEY.encode())
        )

        assert statuses(read(connection)) == [401]


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
@pytest.mark.parametrize("is_split", [True, False])
def test_an_upgrade_is_ignored_and_the_body_is_no_second_request(
    strict: Running, protocol: bytes, is_split: bool
) -> None:
    body = b"DELETE /tasks/victim HTTP/1.1\r\nHost: x\r\n\r\n"
    head = (
        HEAD + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: " + protocol + b"\r\n"
        b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nContent-Length: %d\r\n\r\n"
    )
    last = b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with connected(strict) as connection:
        for content in (GOOD, body):
            if is_split:
                connection.sendall(head % len(content))
                connection.sendall(content)
            else:
                connection.sendall(head % len(content) + content)
        connection.sendall(last)

        assert statuses(read(connection)) == [200, 400, 200]
    assert "upgrade request" not in strict.log  # Java's client asks for h2c in each request


@pytest.mark.parametrize(
    ("authority", "status"), [(b"127.0.0.1:8000", 200), (b"localhost", 200), (b"evil.example", 403)]
)
def test_an_absolute_target_is_answered_by_its_own_host(
    strict: Running, authority: bytes, status: int
) -> None:
    head = b"GET http://%s/info HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with connected(strict) as connection:
        connection.sendall(head % authority)

        assert statuses(read(connection)) == [status]


# Bodies


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_client_that_fills_the_budget_of_bodies_keeps_no_other_out(
    strict: Running, is_announced: bool
) -> None:
    size = MIB // 4 - 1
    framing = b"Content-Length: %d" % (size + 1) if is_announced else b"Transfer-Encoding: chunked"
    content = b" " * size if is_announced else b"%x\r\n%s" % (size + 1, b" " * size)
    large = httpx.Request(
        "POST",
        strict.url + "/embed",
        content=GOOD + b" " * 100_000,
        headers=JSON,
    )
    with ExitStack() as stack:
        for _ in range(16):
            holder = stack.enter_context(connected(strict))
            holder.sendall(HEAD + framing + b"\r\n\r\n" + content)
        strict.until(lambda: strict.metric("elmo_receiving_bytes") == 16 * size)
        with httpx.Client() as same:
            refused = same.send(large)
        with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2")) as other:
            answer = other.send(large)

        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert answer.status_code == 200
        assert httpx.post(strict.url + "/embed", content=GOOD, headers=JSON).status_code == 200
    strict.until(lambda: strict.metric("elmo_receiving_bytes") == 0)


def test_a_client_that_sends_all_before_it_reads_gets_the_refusal_of_a_large_body(
    strict: Running,
) -> None:
    size = 32 << 20  # more than the kernel keeps for a reader
    with connected(strict) as connection:
        with suppress(ConnectionError):  # the connection is closed meanwhile
            connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % size + bytes(size))

        problem(read(connection), 413, "too-large")


def test_a_half_closed_client_counts_as_gone(strict: Running) -> None:
    with connected(strict) as connection:
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % (len(GOOD) + 1))
        connection.shutdown(socket.SHUT_WR)

        assert read(connection) == b""


# Connections


def test_connections_over_the_limit_are_refused_and_the_first_ones_are_served(
    strict: Running,
) -> None:
    request = b"GET /info HTTP/1.1\r\nHost: x\r\n\r\n"
    with ExitStack() as stack:
        kept = [stack.enter_context(connected(strict)) for _ in range(CONNECTIONS)]
        for connection in kept:
            connection.sendall(request)
            assert response(connection).startswith(b"HTTP/1.1 200 ")
        surplus = stack.enter_context(connected(strict))
        surplus.sendall(request)
        refusal = read(surplus)
        probes = [httpx.get(strict.url + path) for path in PROBES]
        kept[0].sendall(request)
        first = response(kept[0])

    problem(refusal, 503, "unavailable")
    assert re.search(rb"^retry-after: 1\r$", refusal, re.MULTILINE | re.IGNORECASE)
    assert b"connection: close" in refusal.lower()
    assert [probe.status_code for probe in probes] == [200] * len(PROBES)
    assert {probe.headers["connection"] for probe in probes} == {"close"}
    assert first.startswith(b"HTTP/1.1 200 ")


def test_connections_far_over_the_limit_are_closed(strict: Running) -> None:
    with ExitStack() as stack:
        for _ in range(2 * CONNECTIONS):
            stack.enter_context(connected(strict))
        one_more = stack.enter_context(connected(strict))

        assert read(one_more) == b""  # long before it has had its time for a head


def test_a_flood_of_pipelined_requests_waits_for_its_responses_to_be_read(
    strict: Running,
) -> None:
    """The requests stay in the client's buffers; the fixture checks the server's memory."""
    request = b"GET /info HTTP/1.1\r\nHost: x\r\n\r\n" * 500
    sent = 0
    with connected(strict) as connection:
        connection.settimeout(0.5)
        with suppress(OSError):
            for _ in range(2_000):
                connection.sendall(request)
                sent += len(request)

    assert sent < 2_000 * len(request)
