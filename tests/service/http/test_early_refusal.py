"""Requests refused before the parser: the same response, and only where the parser would agree."""

import json
import re
from typing import Any

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest

from elmo_serve.errors import Overloaded
from elmo_serve.http.load_shedding import EarlyRefusal
from elmo_serve.http.middleware.context import RequestMetrics
from elmo_serve.metrics import Metrics
from tests.service.http.test_load_shedding import LARGE, answer, full, head, server
from tests.support.raw_http import connected
from tests.support.servers import Running

__all__ = ["server"]  # a fixture

BODY = b'{"sentences": [["a"]]}'
PLAIN = head(len(BODY), "Content-Type: application/json", "User-Agent: a (b; c)") + BODY


class FullQueue:
    """Refuses every request, and keeps the headers that it was shown."""

    is_shedding = True

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []

    def refusal(self, scope: Any) -> Overloaded:
        self.headers = scope["headers"]
        return Overloaded("No room.", retry_after=3)


class EmptyQueue:
    is_shedding = True

    def refusal(self, scope: Any) -> None:
        return None


def refusal(
    shedder: Any, metrics: Metrics | None = None, *, is_allowed: bool = True
) -> EarlyRefusal:
    count = RequestMetrics(metrics or Metrics()).count
    return EarlyRefusal(shedder, count, lambda scope: is_allowed)


def parsed(response: bytes) -> tuple[h11.Response, bytes]:
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="POST", target="/embed", headers=[("Host", "x")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(response)
    begin, data, end = (connection.next_event() for _ in range(3))
    assert isinstance(begin, h11.Response)
    assert isinstance(data, h11.Data)
    assert isinstance(end, h11.EndOfMessage)
    return begin, bytes(data.data)


def test_a_plain_request_gets_a_whole_response() -> None:
    response = refusal(FullQueue()).response(PLAIN)

    assert response is not None
    begin, body = parsed(response)
    assert (begin.status_code, begin.reason) == (503, b"Service Unavailable")
    assert dict(begin.headers)[b"retry-after"] == b"3"
    assert json.loads(body)["detail"] == "No room."


def test_a_refusal_is_counted() -> None:
    metrics = Metrics()
    refusal(FullQueue(), metrics).response(PLAIN)

    text = generate_latest(metrics.registry).decode()
    assert re.search(r'elmo_http_requests_total\{[^}]*route="/embed",status="503"\} 1', text)
    assert re.search(r'elmo_http_request_duration_seconds_count\{route="/embed"\} 1', text)


def test_it_is_active_while_the_shedder_refuses() -> None:
    shedder = FullQueue()
    assert refusal(shedder).is_active
    shedder.is_shedding = False
    assert not refusal(shedder).is_active


def test_a_request_with_room_is_parsed() -> None:
    assert refusal(EmptyQueue()).response(PLAIN) is None


def test_a_request_without_a_valid_key_is_parsed() -> None:
    assert refusal(FullQueue(), is_allowed=False).response(PLAIN) is None


@pytest.mark.parametrize(
    "data",
    [
        PLAIN[:-1],
        PLAIN + b"P",
        PLAIN.replace(b"POST", b"PUT"),
        PLAIN.replace(b"/embed", b"/embed?a=b"),
        PLAIN.replace(b"/embed", b"/tasks"),
        PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
        PLAIN.replace(b"\r\n", b"\n"),
        PLAIN.replace(b"Host: x\r\n", b""),
        PLAIN.replace(b"Host: x", b"Host: x\r\nHost: y"),
        PLAIN.replace(b"Host: x", b"Host: x\r\n y"),
        PLAIN.replace(b"Host:", b"Host :"),
        PLAIN.replace(b"Host: x", b"Host: \xff"),
        PLAIN.replace(b"Host: x", b"Host: x\0"),
        PLAIN.replace(b"Content-Length: ", b"Content-Length: +"),
        PLAIN.replace(b"Content-Length: 2", b"Content-Length: 2\r\nContent-Length: 2"),
        *(
            PLAIN.replace(b"Host: x", b"Host: x\r\n" + line)
            for line in (
                b"Transfer-Encoding: chunked",
                b"Connection: close",
                b"Connection: keep-alive, Upgrade",
                b"Upgrade: h2c",
                b"Expect: 100-continue",
                b"Origin: http://a.example",
            )
        ),
    ],
)
def test_an_unusual_request_is_parsed(data: bytes) -> None:
    assert refusal(FullQueue()).response(data) is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Accept", "X-Request-Id", "x", "Content-Type", "Host", "Connection"]),
            st.text(st.characters(max_codepoint=255), max_size=6),
        ),
        max_size=4,
    ),
    st.sampled_from(["\r\n", "\n", "\r\n ", "\r\n\r\n"]),
    st.integers(len(BODY) - 1, len(BODY) + 1),
)
def test_the_parser_finds_the_same_headers(
    fields: list[tuple[str, str]], separator: str, length: int
) -> None:
    """A request that is refused early is one whole request to h11, with the same headers."""
    lines = ["POST /embed HTTP/1.1", "Host: x", f"Content-Length: {length}"]
    lines += [f"{name}:{value}" for name, value in fields]
    data = separator.join(lines).encode("latin-1") + b"\r\n\r\n" + BODY
    shedder = FullQueue()
    if refusal(shedder).response(data) is None:
        return
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)

    request, body, end = (connection.next_event() for _ in range(3))

    assert isinstance(request, h11.Request)
    assert list(request.headers) == shedder.headers
    assert isinstance(body, h11.Data)
    assert bytes(body.data) == BODY
    assert isinstance(end, h11.EndOfMessage)
    assert connection.trailing_data == (b"", False)


def test_early_and_parsed_refusals_are_alike(server: Running) -> None:
    request = head(len(LARGE), "X-Request-Id: same") + LARGE
    with full(server), connected(server) as connection:
        responses = []
        for _ in range(3):  # the first one is parsed
            connection.sendall(request)
            responses.append(answer(connection))

    first, *others = ((status, {**fields, "date": ""}, body) for status, fields, body in responses)
    assert first[0] == 503
    for other in others:
        assert other == first


def test_a_connection_is_of_use_after_early_refusals(server: Running) -> None:
    request = head(len(LARGE)) + LARGE
    with connected(server) as connection:
        with full(server):
            for _ in range(3):
                connection.sendall(request)
                assert answer(connection)[0] == 503
        connection.sendall(request)
        assert answer(connection)[0] == 200
