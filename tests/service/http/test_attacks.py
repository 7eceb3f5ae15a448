"""Attacks on the HTTP edge, each with the law that it must not break."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import httpx
import pytest

from tests.conftest import KEY
from tests.support.raw_http import GOOD, HEAD, connected, read, statuses
from tests.support.servers import SMALL, Running, running

MIB = 1 << 20


@pytest.fixture(scope="module")
def budgeted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that takes at most 4 MiB of bodies at once, over 40 connections."""
    folder = tmp_path_factory.mktemp("budgeted")
    with running(
        folder,
        model=SMALL,
        tasks=folder / "tasks",
        max_body_bytes=MIB // 4,
        max_connections=40,
    ) as server:
        yield server


# 1 and 5: trailers


def test_trailers_without_end_are_cut_off(server: Running) -> None:
    line = b"X-Trailer: " + b"a" * 1_000 + b"\r\n"
    sent = 0
    with connected(server) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
        with suppress(ConnectionError):
            while sent < 64 * MIB:
                connection.sendall(line)
                sent += len(line)

    assert sent < 64 * MIB


def test_a_key_in_a_trailer_is_no_key(narrow: Running) -> None:
    with connected(narrow) as connection:
        connection.sendall(
            HEAD
            + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"%x\r\n%s\r\n0\r\nAuthorization: Bearer %s\r\n\r\n" % (len(GOOD), GOOD, KEY.encode())
        )

        assert statuses(read(connection)) == [401]


# 2 and 8: bodies that are not sent to their end


def test_half_sent_bodies_hold_one_descriptor_each(budgeted: Running) -> None:
    def descriptors() -> int:
        return len(budgeted.descriptors())

    part = HEAD + b"Content-Length: 33001\r\n\r\n" + b" " * 33_000
    before = descriptors()
    with ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(connected(budgeted)).sendall(part)
        budgeted.until(lambda: budgeted.metric("elmo_receiving_bytes") == 30 * 33_000)

        assert descriptors() - before <= 31
        assert httpx.post(budgeted.url + "/embed", content=GOOD).status_code == 200
    budgeted.until(lambda: budgeted.metric("elmo_receiving_bytes") == 0)


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_client_that_fills_the_budget_of_bodies_keeps_no_other_out(
    budgeted: Running, is_announced: bool
) -> None:
    size = MIB // 4 - 1
    framing = b"Content-Length: %d" % (size + 1) if is_announced else b"Transfer-Encoding: chunked"
    content = b" " * size if is_announced else b"%x\r\n%s" % (size + 1, b" " * size)
    large = httpx.Request(
        "POST",
        budgeted.url + "/embed",
        content=GOOD + b" " * 100_000,
        headers={"content-type": "application/json"},
    )
    with ExitStack() as stack:
        for _ in range(16):
            holder = stack.enter_context(connected(budgeted))
            holder.sendall(HEAD + framing + b"\r\n\r\n" + content)
        budgeted.until(lambda: budgeted.metric("elmo_receiving_bytes") == 16 * size)
        with httpx.Client() as same:
            refused = same.send(large)
        with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2")) as other:
            answer = other.send(large)

        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert answer.status_code == 200
        assert httpx.post(budgeted.url + "/embed", content=GOOD).status_code == 200
    budgeted.until(lambda: budgeted.metric("elmo_receiving_bytes") == 0)


# 3: upgrades


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
@pytest.mark.parametrize("is_split", [True, False])
def test_an_upgrade_is_ignored_and_the_body_is_no_second_request(
    server: Running, protocol: bytes, is_split: bool
) -> None:
    body = b"DELETE /tasks/victim HTTP/1.1\r\nHost: x\r\n\r\n"
    head = (
        HEAD + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: " + protocol + b"\r\n"
        b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nContent-Length: %d\r\n\r\n"
    )
    last = b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with connected(server) as connection:
        for content in (GOOD, body):
            if is_split:
                connection.sendall(head % len(content))
                connection.sendall(content)
            else:
                connection.sendall(head % len(content) + content)
        connection.sendall(last)

        assert statuses(read(connection)) == [200, 400, 200]
    assert "upgrade request" not in server.log  # Java's client asks for h2c in each request


# targets in absolute form


@pytest.mark.parametrize(
    ("authority", "status"), [(b"127.0.0.1:8000", 200), (b"localhost", 200), (b"evil.example", 403)]
)
def test_an_absolute_target_is_answered_by_its_own_host(
    server: Running, authority: bytes, status: int
) -> None:
    head = b"GET http://%s/info HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with connected(server) as connection:
        connection.sendall(head % authority)

        assert statuses(read(connection)) == [status]


# 4: bytes that are no request


def test_a_blank_line_after_a_response_does_not_hold_the_connection(budgeted: Running) -> None:
    with connected(budgeted) as connection:
        connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        first = connection.recv(12)
        connection.sendall(b"\r\n")

        assert statuses(first + read(connection)) == [200, 400]


# 13: the small ones


def test_a_line_break_in_a_path_matches_no_route(client: httpx.Client) -> None:
    for path in ("/embed%0a", "/health/live%0a", "/embed%0d%0a"):
        assert client.post(path, content=GOOD).status_code in (404, 405)
        assert client.get(path).status_code == 404


def test_the_timeout_may_have_white_space_around_it(server: Running) -> None:
    with connected(server) as connection:
        connection.sendall(
            HEAD + b"X-Request-Timeout: 5 \r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(GOOD), GOOD)
        )

        assert statuses(read(connection)) == [200]


def test_a_layer_of_thousands_of_digits_is_shortened(client: httpx.Client) -> None:
    content = b'{"sentences": [["a"]], "layers": [%s]}' % (b"9" * 4_000)

    answer = client.post("/embed", content=content)

    assert answer.status_code == 422
    assert len(answer.content) < 1_000


def test_an_accept_header_of_many_kilobytes_is_refused(client: httpx.Client) -> None:
    accept = ",".join(f"a/b{index};q=0.{index % 10}" for index in range(4_000))

    refused = client.post("/embed", content=GOOD, headers={"Accept": accept})
    assert refused.status_code == 406
    assert "4096 characters" in refused.json()["detail"], "it was refused by its length, unread"
    assert client.get("/metrics", headers={"Accept": accept}).status_code == 200


def test_unknown_methods_share_one_label(server: Running) -> None:
    for index in range(5):
        with connected(server) as connection:
            connection.sendall(
                b"BREW%d /embed HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % index
            )
            assert statuses(read(connection)) == [405]

    text = httpx.get(server.url + "/metrics").text
    assert "BREW" not in text
    assert 'method="other",route="/embed",status="405"' in text


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"GET /info HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET /info HTTP/1.1\r\n\r\n", 400),
        (b"GET /info HTTP/2.0\r\nHost: a\r\n\r\n", 400),
        (b"GET /info HTTP/0.9\r\nHost: a\r\n\r\n", 400),
        (b"GET /info HTTP/1.0\r\n\r\n", 200),
        (HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    ],
)
def test_ambiguous_requests_are_refused_and_closed(
    server: Running, request_head: bytes, status: int
) -> None:
    with connected(server) as connection:
        connection.sendall(request_head)

        response = read(connection)

    assert statuses(response) in ([status], [400])
    assert (b"application/problem+json" in response) == (status != 200)


def test_a_half_closed_client_counts_as_gone(server: Running) -> None:
    with connected(server) as connection:
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % (len(GOOD) + 1))
        connection.shutdown(socket.SHUT_WR)

        assert read(connection) == b""


def test_a_flood_of_attackers_leaves_the_others_answered(budgeted: Running) -> None:
    """Each attacker does one of the attacks above; an honest client is answered beside them."""
    starts = (
        HEAD + b"Content-Length: 200000\r\n\r\n" + b" " * 100_000,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-T: ",
        HEAD + b"X-Long: ",
        HEAD + b"Upgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 90\r\n\r\n{",
    )
    with ExitStack() as stack:
        for start in starts * 7:
            attacker = stack.enter_context(connected(budgeted))
            threading.Thread(target=attacker.sendall, args=(start,), daemon=True).start()
        for _ in range(20):
            assert httpx.post(budgeted.url + "/embed", content=GOOD).status_code == 200
    budgeted.until(lambda: budgeted.metric("elmo_receiving_bytes") == 0)
