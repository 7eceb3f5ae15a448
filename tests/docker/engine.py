"""Helpers that drive a Docker engine: commands, free ports, the services of the compose file."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
PROMETHEUS = "prom/prometheus:v2.53.3"
# A fixed port: the address is a build argument, and another one would invalidate the build cache.
WHEELS_PORT = 8899


def run(
    *command: str,
    env: dict[str, str] | None = None,
    text: str | None = None,
    folder: Path = ROOT,
) -> str:
    """Run a command in the repository's root, or another folder; return its output."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(env or {})},
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stderr[-4000:]}"
    return done.stdout


def has_compose() -> bool:
    """Return whether Docker Compose is installed: without an engine it reads its files alone."""
    return shutil.which("docker") is not None and _succeeds("docker", "compose", "version")


def has_engine() -> bool:
    """Return whether a Docker engine and Compose are available."""
    return has_compose() and _succeeds("docker", "info")


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@dataclass(frozen=True, slots=True)
class Stack:
    """The services that `docker compose up --build --wait` started."""

    environment: dict[str, str]
    service: httpx.Client
    prometheus: httpx.Client

    def compose(self, *arguments: str) -> str:
        return run("docker", "compose", *arguments, env=self.environment)

    def container(self) -> str:
        return self.compose("ps", "--all", "--quiet", "elmo").strip()


@contextmanager
def wheels_for_builds() -> Iterator[dict[str, str]]:
    """Serve this host's wheel folder to image builds, which see its loopback but not its files."""
    folder = os.environ.get("PIP_FIND_LINKS", "")
    if not Path(folder).is_dir() or not folder:
        yield {}
        return
    address = {"PIP_FIND_LINKS": f"http://127.0.0.1:{WHEELS_PORT}/"}
    try:
        handler = partial(SimpleHTTPRequestHandler, directory=folder)
        server = ThreadingHTTPServer(("127.0.0.1", WHEELS_PORT), handler)
    except OSError:  # another process serves it already
        yield address
        return
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
