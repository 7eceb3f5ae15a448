"""HTTP/1.1 over a bare socket: for clients that a library would not let one write."""

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from elmo_serve.errors import TYPE_PREFIX
from tests.support.servers import Running

HEAD = b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
"""The start of a head, to which framing is added."""

JSON = {"Content-Type": "application/json"}

GOOD = b'{"sentences": [["a"]], "layers": "top"}'
"""A body that is answered 200."""

GUARD_SECONDS = 120.0
"""A read that takes longer fails the test instead of hanging it."""


@contextmanager
def connected(server: Running) -> Iterator[socket.socket]:
    """Connect to a server."""
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), GUARD_SECONDS) as connection:
        yield connection


def read(connection: socket.socket) -> bytes:
    """Return everything until the server closes the connection."""
    data = b""
    with suppress(ConnectionResetError):
        while some := connection.recv(65536):
            data += some
    return data


def response(connection: socket.socket) -> bytes:
    """Return one response with its body."""
    data = b""
    while (head := re.search(rb"content-length: (\d+)(?s:.*?)\r\n\r\n", data)) is None:
        data += received(connection)
    while len(data) < head.end() + int(head[1]):
        data += received(connection)
    return data


def received(connection: socket.socket) -> bytes:
    """Return the next bytes; raises AssertionError where the server has closed the connection."""
    data = connection.recv(65536)
    assert data, "the connection was closed"
    return data


def statuses(responses: bytes) -> list[int]:
    """Return the status codes of some responses."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", responses)]


def problem(answer: bytes, status: int, slug: str) -> dict[str, Any]:
    """Check that a response is a whole problem document with its request id; return its members."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer[:500]
    assert b"content-type: application/problem+json" in head
    assert b"content-length: %d" % len(body) in head
    members: dict[str, Any] = json.loads(body)
    assert members["type"] == TYPE_PREFIX + slug
    assert members["status"] == status
    assert f"x-request-id: {members['instance']}".encode() in head
    return members
