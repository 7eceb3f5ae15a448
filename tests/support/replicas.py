"""Servers behind HAProxy with the project's configuration, and clients that check every response.

with loaded(tmp_path, 3) as (replicas, load):
    replicas[0].kill()
    load.until_answered(100)
"""

import http.client
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import orjson
from numpy.typing import NDArray

from elmo_serve.http.media_types import safetensors
from tests.support.servers import SMALL, Running, free_port, spawned

FOLDER = Path(__file__).parents[2] / "docker" / "haproxy"
SENTENCES = [[["The", "bank", "of", "the", str(i)], ["a"] * (1 + i % 7)] for i in range(40)]
CLIENTS = 4

_BODIES = [orjson.dumps({"sentences": each, "layers": "top"}) for each in SENTENCES]
_HEADERS = {"Content-Type": "application/json", "Accept": safetensors.ENCODER.media_type}
_TIMEOUT_SECONDS = 300
_TOLERANCE = 1e-5  # the contract's, of two responses to one sentence


@dataclass
class Load:
    """Clients that send requests without a pause and compare each response.

    `slowest` is the longest time of a response in seconds, since it was set to 0.
    """

    url: str
    expected: list[list[NDArray[np.float32]]]
    answered: int = 0
    slowest: float = 0.0
    faults: list[str] = field(default_factory=list)
    _is_over: threading.Event = field(default_factory=threading.Event)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Send requests until the block ends; fail when one of them failed."""
        clients = [threading.Thread(target=self._send, args=(start,)) for start in range(CLIENTS)]
        for client in clients:
            client.start()
        try:
            self.until_answered(20)
            yield
            self.until_answered(20)
        finally:
            self._is_over.set()
            for client in clients:
                client.join()
        assert self.faults == [], self.faults[:3]

    def until_answered(self, more: int) -> None:
        """Wait until so many more requests were answered, or one has failed."""
        with self._changed:
            goal = self.answered + more
            while self.answered < goal and not self.faults:
                assert self._changed.wait(_TIMEOUT_SECONDS), "no request was answered"

    def _send(self, index: int) -> None:
        with closing_connection(self.url) as connection:
            while not (self._is_over.is_set() or self.faults):
                index = (index + 1) % len(SENTENCES)
                start = time.monotonic()
                try:
                    fault = self._fault(index, connection)
                except (OSError, http.client.HTTPException) as error:
                    fault = f"{type(error).__name__}: {error}"
                self._note(fault, time.monotonic() - start)

    def _fault(self, index: int, connection: http.client.HTTPConnection) -> str | None:
        connection.request("POST", "/embed", _BODIES[index], _HEADERS)
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            return f"{response.status}: {content[:200]!r}"
        found = safetensors.decode(content)
        pairs = zip(found, self.expected[index], strict=True)
        is_right = all(np.abs(one - other).max() <= _TOLERANCE for one, other in pairs)
        return None if is_right else f"wrong vectors of request {index}"

    def _note(self, fault: str | None, seconds: float) -> None:
        with self._changed:
            self.slowest = max(self.slowest, seconds)
            if fault is None:
                self.answered += 1
            else:
                self.faults.append(fault)
            self._changed.notify_all()


@contextmanager
def closing_connection(url: str) -> Iterator[http.client.HTTPConnection]:
    """Yield a connection that is kept open between requests."""
    address = urlsplit(url)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(
        address.hostname, address.port, timeout=_TIMEOUT_SECONDS
    )
    try:
        yield connection
    finally:
        connection.close()


def expected(url: str) -> list[list[NDArray[np.float32]]]:
    """Return the vectors of all `SENTENCES` from a server."""
    with httpx.Client(base_url=url, timeout=_TIMEOUT_SECONDS) as client:
        answers = [client.post("/embed", content=body, headers=_HEADERS) for body in _BODIES]
        return [safetensors.decode(each.raise_for_status().content) for each in answers]


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

    def kill(self) -> None:
        """End it at once."""
        assert self.server is not None
        self.server.process.kill()
        self.server.process.wait()


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
            assert client.get(f"{url}/health/ready", timeout=30).status_code == 200
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
        load = Load(url, expected(first.url))
        with load.under_way():
            yield replicas, load
