"""Hostile clients: requests that are malformed, huge or compressed, and attackers beside them.

An attacker holds one connection and sends one thing, once or over and over.
"""

import contextlib
import gzip
import socket
import threading
from collections.abc import Iterator

import orjson

from tests.support.http_messages import connected
from tests.support.servers import Running

BODY_BYTES = 1 << 20
"""The size of a body that is too large for a server with this limit."""

_ATTACKERS = 4
_MIB = 1 << 20


Attack = tuple[bytes, bytes]
"""The bytes that an attacker sends at first, and those that it repeats."""


def _head(length: int | None, *lines: str) -> bytes:
    """Return the head of a POST /embed, without Content-Length where the length is None."""
    fields = ["POST /embed HTTP/1.1", "host: elmo"]
    if length is not None:
        fields.append(f"content-length: {length}")
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


_CHUNKED = "transfer-encoding: chunked"
_GET = b"GET /health/live HTTP/1.1\r\nhost: elmo\r\n"
_ACCEPT = b",".join(b"a/b%d;q=0.5" % index for index in range(4_500))

ATTACKS: list[Attack] = [
    # trailers of a chunked body without end
    (_head(None, _CHUNKED) + b"2\r\n{}\r\n0\r\n", b"x: %s\r\n" % (b"a" * 10_000)),
    # bodies without their last byte: small, large, and large in one chunk
    (_head(20_001) + b" " * 20_000, b""),
    (_head(8 * _MIB) + b" " * (8 * _MIB - 1), b""),
    (_head(None, _CHUNKED) + b"%x\r\n" % (8 * _MIB) + b" " * (8 * _MIB - 1), b""),
    # a blank line after a request, and 60 KB of Accept
    (_GET + b"\r\n\r\n", b""),
    (b"", _GET + b"accept: " + _ACCEPT + b"\r\n\r\n"),
]


def status_of(server: Running, request: bytes, seconds: float = 20) -> int:
    """Send bytes and return the status of the response; 400 if the connection is closed instead.

    Raises TimeoutError when neither happens.
    """
    with connected(server) as connection:
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
def attack(server: Running, sends: Attack, is_over: threading.Event) -> Iterator[None]:
    """Let some attackers do one thing, each in a thread, until the block is left."""

    def work(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the server has closed the connection
            first, again = sends
            connection.sendall(first)
            while not is_over.wait(0 if again else None):
                connection.sendall(again)
                with contextlib.suppress(BlockingIOError):
                    connection.recv(_MIB, socket.MSG_DONTWAIT)

    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # the server may not listen
            for _ in range(_ATTACKERS):
                connection = stack.enter_context(connected(server))
                threading.Thread(target=work, args=(connection,), daemon=True).start()
        yield
