"""The health check of the image goes by the status of /health/ready alone."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from socket import AF_INET6, has_dualstack_ipv6
from typing import Any

import pytest

from tests.docker.engine import ROOT
from tests.support.servers import free_port


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (404, 1), (500, 1)])
def test_only_200_is_healthy(status: int, code: int) -> None:
    with answering(status) as port:
        assert check(port) == (code, "because\n")


def test_a_refused_connection_is_unhealthy() -> None:
    code, text = check(free_port())
    assert code == 1
    assert "refused" in text


@pytest.mark.skipif(not has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("host", ["::", "::1"])
def test_a_server_without_ipv4_is_asked_by_ipv6(host: str) -> None:
    with answering(200, "::1") as port:
        code, text = check(port, host)

    assert code == 0
    assert text.endswith("because\n")


def check(port: int, host: str = "0.0.0.0") -> tuple[int, str]:
    """Run the check as the image does; return its exit code and its output."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", ROOT / "docker" / "healthcheck.py"],
        env={"ELMO_PORT": str(port), "ELMO_HOST": host},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout


class Probe(BaseHTTPRequestHandler):
    """Responds to /health/ready with one status and to every other path with 200."""

    def __init__(self, status: int, *arguments: Any) -> None:
        self.status = status
        super().__init__(*arguments)

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/health/ready" else 200)
        self.end_headers()
        self.wfile.write(b"because")

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - as inherited
        pass


@contextmanager
def answering(status: int, host: str = "127.0.0.1") -> Iterator[int]:
    class Server(HTTPServer):
        address_family = AF_INET6 if ":" in host else HTTPServer.address_family

    with Server((host, 0), partial(Probe, status)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
