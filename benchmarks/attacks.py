"""Attacks on a running server: what an honest client waits, and what the server holds.

    python -m benchmarks.attacks [--seconds 10]

Each attack runs against a server of its own with a small model and default limits. Meanwhile one
client sends small requests, one after another. Targets: the slowest of them takes less than a
second, the server grows by less than 200 MB (RssAnon + RssShmem), and five seconds after the
attackers have left it holds as many descriptors as before. Attackers share this program's
processor time with the client: run it on an idle machine.
"""

import argparse
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from benchmarks.machine import describe
from tests.support.processes import own_memory, shared_memory
from tests.support.servers import SMALL, Running, running

_GOOD = b'{"sentences": [["a"]], "layers": "top"}'
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


ATTACKS: tuple[tuple[Attack, int], ...] = (
    (endless_trailers, 4),
    (half_sent_bodies, 900),
    (large_bodies, 150),
    (large_chunked_bodies, 150),
    (blank_lines, 900),
    (long_accept, 4),
)
"""Each attack with its number of connections."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one attack did to the server."""

    slowest_seconds: float
    failures: int
    requests: int
    grown_megabytes: float
    descriptors_left: int


def measure(attack: Attack, connections: int, seconds: float) -> Row:
    """Run one attack against a server of its own."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), model=SMALL) as server:
        httpx.post(server.url + "/embed", content=_GOOD).raise_for_status()
        memory, descriptors = _memory(server), len(server.descriptors())
        is_over = threading.Event()
        with ExitStack() as stack:
            for _ in range(connections):
                start_attacker(stack, server, attack, is_over)
            slowest, failures, requests, grown = 0.0, 0, 0, 0.0
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                start = time.monotonic()
                try:
                    answer = httpx.post(server.url + "/embed", content=_GOOD, timeout=10)
                    failures += answer.status_code != 200
                except httpx.TransportError:
                    failures += 1
                slowest = max(slowest, time.monotonic() - start)
                requests += 1
                grown = max(grown, _memory(server) - memory)
            is_over.set()
        time.sleep(5)
        left = len(server.descriptors()) - descriptors
    return Row(slowest, failures, requests, grown, left)


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


def _memory(server: Running) -> float:
    return own_memory(server.pid) + shared_memory(server.pid)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each attack")
    arguments = parser.parse_args()
    print(describe())
    print("| attack | connections | slowest s | failures | requests | MB | descriptors left |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for attack, connections in ATTACKS:
        row = measure(attack, connections, arguments.seconds)
        print(
            f"| {attack.__name__.replace('_', ' ')} | {connections} | {row.slowest_seconds:.2f} "
            f"| {row.failures} | {row.requests} | {row.grown_megabytes:.0f} "
            f"| {row.descriptors_left} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
