"""Clients that attack a server: each holds one connection and does one thing until it is over."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

from tests.support.servers import Running

_HEAD = b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
_MIB = 1 << 20

Attack = Callable[[socket.socket, threading.Event], None]


def endless_trailers(connection: socket.socket, is_over: threading.Event) -> None:
    """Send the trailers of a chunked body without end."""
    connection.sendall(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
    while not is_over.is_set():
        connection.sendall(b"X-Trailer: " + b"a" * 10_000 + b"\r\n")


def half_sent_bodies(connection: socket.socket, is_over: threading.Event) -> None:
    """Send 20,000 of 20,001 bytes."""
    connection.sendall(_HEAD + b"Content-Length: 20001\r\n\r\n" + b" " * 20_000)
    is_over.wait()


def large_bodies(connection: socket.socket, is_over: threading.Event) -> None:
    """Send 8 MiB less a byte."""
    connection.sendall(_HEAD + b"Content-Length: %d\r\n\r\n" % (8 * _MIB))
    connection.sendall(b" " * (8 * _MIB - 1))
    is_over.wait()


def large_chunked_bodies(connection: socket.socket, is_over: threading.Event) -> None:
    """Send a chunk of 8 MiB less a byte, which was not announced."""
    connection.sendall(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % (8 * _MIB))
    connection.sendall(b" " * (8 * _MIB - 1))
    is_over.wait()


def blank_lines(connection: socket.socket, is_over: threading.Event) -> None:
    """Send a blank line after a response."""
    connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.recv(65_536)
    connection.sendall(b"\r\n")
    is_over.wait()


def long_accept(connection: socket.socket, is_over: threading.Event) -> None:
    """Send requests with 60 KB of Accept."""
    accept = b",".join(b"a/b%d;q=0.5" % index for index in range(4_500))
    request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: " + accept + b"\r\n\r\n"
    while not is_over.is_set():
        connection.sendall(request)
        connection.recv(1 << 20)


ATTACKS: tuple[Attack, ...] = (
    endless_trailers,
    half_sent_bodies,
    large_bodies,
    large_chunked_bodies,
    blank_lines,
    long_accept,
)


def start_attacker(
    stack: ExitStack, server: Running, attack: Attack, is_over: threading.Event
) -> None:
    """Let an attacker connect, and attack in a thread until it is over."""
    address = urlsplit(server.url)
    connection = socket.create_connection((address.hostname, address.port), timeout=60)
    stack.enter_context(connection)

    def work() -> None:
        with suppress(OSError):  # the server has closed the connection
            attack(connection, is_over)

    threading.Thread(target=work, daemon=True).start()
