"""Servers behind HAProxy with the project's configuration, and clients that check every response.

with loaded(tmp_path, 3) as (replicas, load):
    replicas[0].kill()
    load.until_answered(100)
"""

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import httpx
import orjson

from benchmarks.comparison import Reference, Request
from tests.support.answers import sentences
from tests.support.load import Load
from tests.support.servers import SMALL, Running, free_port, spawned

FOLDER = Path(__file__).parents[2] / "docker" / "haproxy"
CLIENTS = 4

_REQUESTS = 40


def requests_of(url: str) -> list[Request]:
    """Return requests whose right vectors are those that a server has now."""
    made = sentences(None, 2 * _REQUESTS, random.Random(1))
    bodies = [
        orjson.dumps({"sentences": made[2 * number :][:2], "layers": "top"})
        for number in range(_REQUESTS)
    ]
    requests = list(map(Reference().request, bodies))
    with httpx.Client(base_url=url, timeout=300) as http:
        for request in requests:
            headers = {"Content-Type": "application/json", "Accept": request.media_type}
            response = http.post("/embed", content=request.content, headers=headers)
            assert request.difference(response.raise_for_status().content) is None
        return requests


@dataclass
class Replica:
    """A server on one port, which can be started again."""

    folder: Path
    port: int
    server: Running | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        with ExitStack() as stack:
            self.server = stack.enter_context(
                spawned(self.folder, port=self.port, model=SMALL, tasks=self.folder.parent)
            )
            self._stack = stack.pop_all()

    def stop(self) -> None:
        """Let it drain and end."""
        self._stack.close()

    def until_asked(self, requests: int) -> None:
        """Wait until it has received this many requests for vectors since its start."""
        server = self.server
        assert server is not None
        server.until(lambda: server.metric("elmo_http_requests_total", method="POST") >= requests)

    def kill(self) -> None:
        """End it at once."""
        assert self.server is not None
        self.server.process.kill()
        self.stop()


@contextmanager
def proxied(folder: Path, ports: list[int], config: Path = FOLDER / "haproxy.cfg") -> Iterator[str]:
    """Run HAProxy with the project's configuration before some servers; yield its address."""
    lines = ["backend elmo from elmo"]
    lines += [f"    server replica-{port} 127.0.0.1:{port}" for port in ports]
    backend = folder / "replicas.cfg"
    backend.write_text("\n".join([*lines, ""]))
    port, metrics = free_port(), free_port()
    environment = {
        **os.environ,
        "HAPROXY_BIND": f"127.0.0.1:{port}",
        "HAPROXY_METRICS_BIND": f"127.0.0.1:{metrics}",
    }
    command = ["haproxy", "-f", str(config), "-f", str(backend)]
    with (folder / "haproxy.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(transport=httpx.HTTPTransport(retries=20)) as client:
            assert client.get(f"{url}/health/ready").status_code == 200
            assert "haproxy_" in client.get(f"http://127.0.0.1:{metrics}/metrics").text
        yield url
    finally:
        process.kill()
        process.wait()


@contextmanager
def loaded(folder: Path, count: int) -> Iterator[tuple[list[Replica], Load]]:
    """Run some replicas behind the proxy, under load."""
    replicas = [Replica(folder / str(index), free_port()) for index in range(count)]
    with ExitStack() as stack:
        for replica in replicas:
            stack.callback(replica.stop)
            replica.start()
        first = replicas[0].server
        assert first is not None
        url = stack.enter_context(proxied(folder, [each.port for each in replicas]))
        load = Load(url, cycle(requests_of(first.url)))
        with load.under_way(CLIENTS):
            yield replicas, load
