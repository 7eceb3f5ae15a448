"""Hostile clients: requests that are malformed, huge or compressed, and attackers beside them."""

from __future__ import annotations

import contextlib
import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import orjson

from benchmarks.faults.attackers import Attack, start_attacker
from tests.support.servers import Running

BODY_BYTES = 1 << 20
"""The size of a body that is too large for a server with this limit."""

_ATTACKERS = 4


def _head(length: int, *lines: str) -> bytes:
    """Return the head of a POST /embed."""
    fields = ["POST /embed HTTP/1.1", "host: elmo", f"content-length: {length}"]
    if not any(line.startswith("content-type") for line in lines):
        fields.append("content-type: application/json")
    return "\r\n".join([*fields, *lines, "", ""]).encode()


def _post(body: bytes, *lines: str) -> bytes:
    return _head(len(body), *lines) + body


BAD_REQUESTS = [
    b"\x16\x03\x01 this is no HTTP\r\n\r\n",
    b"POST /embed HTTP/1.1\r\nhost: elmo\r\ncontent-length: x\r\n\r\n",
    _post(b'{"sentences": [["a"'),
    _post(b"\xff\xfe"),
    _post(b'{"sentences": ' + b"[" * 100_000),
    _post(b'{"sentences": "a"}'),
    _post(b'{"sentences": [["a"]], "layers": [7]}'),
    _post(b"<a/>", "content-type: text/xml"),
    _post(b'{"sentences": [["' + b"a" * BODY_BYTES + b'"]]}'),
    _head(1 << 50),
    _post(orjson.dumps({"sentences": [["a"] * 35_001]})),
    _post(orjson.dumps({"sentences": [[]] * 10_001})),
    _post(gzip.compress(bytes(100 * BODY_BYTES)), "content-encoding: gzip"),
    b"POST /embed HTTP/1.1\r\nhost: elmo\r\n" + b"x-long: " + b"a" * 200_000 + b"\r\n\r\n",
]


def status_of(server: Running, request: bytes, seconds: float = 20) -> int:
    """Send bytes and return the status of the response; 400 if the connection is closed instead.

    Raises TimeoutError when neither happens.
    """
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        connection.settimeout(seconds)
        # The server may refuse it before all of it is sent.
        with contextlib.suppress(ConnectionError):
            connection.sendall(request)
        try:
            first = connection.recv(64)
        except ConnectionError:
            first = b""
    return int(first[9:12]) if first.startswith(b"HTTP/1.1 ") else 400


@contextlib.contextmanager
def attack(server: Running, kind: Attack, is_over: threading.Event) -> Iterator[None]:
    """Let some attackers do one thing until the block is left."""
    with ExitStack() as stack:
        with contextlib.suppress(OSError):  # the server may not listen
            for _ in range(_ATTACKERS):
                start_attacker(stack, server, kind, is_over)
        yield
