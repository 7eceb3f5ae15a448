"""Servers behind HAProxy with the project's configuration, and clients that check every response.

with loaded(tmp_path, 3) as (replicas, load):
    replicas[0].kill()
    load.until_answered(100)
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import httpx
import orjson

from benchmarks.comparison import Reference, Request
from benchmarks.connections import Connections
from benchmarks.load import Phase, Send, Sender, closed_loop
from tests.support.answers import sentences
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


_TIMEOUT_SECONDS = 300.0


class Load:
    """Clients that send requests without a pause and compare each response.

    `slowest` is the longest time of a response in seconds, since it was set to 0. `phase` has the
    counts.
    """

    def __init__(self, url: str, requests: Iterator[Request]) -> None:
        self.phase = Phase("load")
        self.slowest = 0.0
        self._url = url
        self._requests = requests
        self._changed = threading.Condition()

    @property
    def answered(self) -> int:
        """Requests that were answered with vectors."""
        return self.phase.answered

    @property
    def failed(self) -> int:
        """Requests that were wrong, lost, late, or had a status that they should not have."""
        phase = self.phase
        statuses = phase.failed.total() + phase.refused.total()
        return phase.wrong + phase.lost + phase.late + statuses

    @contextmanager
    def under_way(self, clients: int) -> Iterator[None]:
        """Send requests until the block ends; fail when one of them failed."""
        self.phase.until = math.inf
        thread = threading.Thread(target=lambda: asyncio.run(self._run(clients)))
        thread.start()
        try:
            self.until_answered(5 * clients)
            yield
            self.until_answered(5 * clients)
        finally:
            self.phase.until = time.perf_counter()
            thread.join()
        assert not self.failed, (self.phase.faults, self.phase.refused, self.phase.late)

    def until_answered(self, more: int) -> None:
        """Wait until this many more requests were answered, or one has failed."""
        with self._changed:
            goal = self.answered + more
            while self.answered < goal and not self.failed:
                assert self._changed.wait(_TIMEOUT_SECONDS), "no request was answered"

    async def _run(self, clients: int) -> None:
        async with self._sender(clients) as send_one:

            async def send(phase: Phase, due: float) -> float:
                pause = await send_one(phase, due)
                self.slowest = max(self.slowest, time.perf_counter() - due)
                with self._changed:
                    self._changed.notify_all()
                return pause

            await closed_loop(send, self.phase, clients)

    @asynccontextmanager
    async def _sender(self, clients: int) -> AsyncIterator[Send]:
        """Yield a function that sends the next request and counts its outcome."""
        connections = Connections(self._url, clients)
        try:
            yield Sender(connections, self._requests, _TIMEOUT_SECONDS).send
        finally:
            await connections.close()
