"""HAProxy before replicas: none of the requests fails while replicas restart or are killed."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from elmo_serve.http.media_types import safetensors
from tests.docker.engine import ROOT
from tests.support.servers import SMALL, Running, free_port, running

FOLDER = ROOT / "docker" / "haproxy"
OVERLAY = yaml.safe_load((ROOT / "docker-compose.replicas.yml").read_text().replace("!reset", ""))
SENTENCES = [[["The", "bank", "of", "the", str(i)], ["a"] * (1 + i % 7)] for i in range(40)]
CLIENTS = 4

needs_haproxy = pytest.mark.skipif(
    shutil.which("haproxy") is None, reason="HAProxy is not installed (Debian's package haproxy)"
)


@dataclass
class Load:
    """Clients that send requests without a pause and compare each response."""

    url: str
    expected: list[list[NDArray[np.float32]]]
    answered: int = 0
    faults: list[str] = field(default_factory=list)
    _is_over: threading.Event = field(default_factory=threading.Event)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def under_way(self) -> Iterator[None]:
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

    def until_answered(self, more: int) -> None:
        """Wait until so many more requests were answered."""
        with self._changed:
            goal = self.answered + more
            assert self._changed.wait_for(lambda: self.answered >= goal or self.faults, 120)

    def _send(self, index: int) -> None:
        with httpx.Client(base_url=self.url, timeout=120) as client:
            while not self._is_over.is_set():
                index = (index + 1) % len(SENTENCES)
                try:
                    self._check(index, post(client, index))
                except httpx.HTTPError as error:
                    self._note(f"{type(error).__name__}: {error}")

    def _check(self, index: int, response: httpx.Response) -> None:
        if response.status_code != 200:
            self._note(f"{response.status_code}: {response.text[:200]}")
            return
        found = safetensors.decode(response.content)
        pairs = zip(found, self.expected[index], strict=True)
        is_right = all(np.allclose(one, other, atol=1e-5) for one, other in pairs)
        self._note(None if is_right else f"wrong vectors of request {index}")

    def _note(self, fault: str | None) -> None:
        with self._changed:
            if fault is None:
                self.answered += 1
            else:
                self.faults.append(fault)
            self._changed.notify_all()


@dataclass
class Replica:
    """A server on one port, which can be started again."""

    folder: Path
    port: int
    server: Running | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        with ExitStack() as stack:
            self.server = stack.enter_context(
                running(self.folder, port=self.port, model=SMALL, tasks=self.folder.parent)
            )
            self._stack = stack.pop_all()

    def stop(self) -> None:
        self._stack.close()

    def kill(self) -> None:
        assert self.server is not None
        self.server.process.kill()
        self.server.process.wait()


def post(client: httpx.Client, index: int) -> httpx.Response:
    body = {"sentences": SENTENCES[index], "layers": "top"}
    return client.post("/embed", json=body, headers={"Accept": "application/vnd.safetensors"})


@contextmanager
def proxied(folder: Path, replicas: list[Replica]) -> Iterator[str]:
    """Run HAProxy with the project's configuration before some replicas; yield its address."""
    lines = ["backend elmo from elmo"]
    lines += [f"    server replica-{each.port} 127.0.0.1:{each.port}" for each in replicas]
    backend = folder / "replicas.cfg"
    backend.write_text("\n".join([*lines, ""]))
    port, metrics = free_port(), free_port()
    environment = {
        **os.environ,
        "HAPROXY_BIND": f"127.0.0.1:{port}",
        "HAPROXY_METRICS_BIND": f"127.0.0.1:{metrics}",
    }
    command = ["haproxy", "-f", str(FOLDER / "haproxy.cfg"), "-f", str(backend)]
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
        with first.client() as client:
            expected = [
                safetensors.decode(post(client, index).content) for index in range(len(SENTENCES))
            ]
        load = Load(stack.enter_context(proxied(folder, replicas)), expected)
        with load.under_way():
            yield replicas, load
    assert load.faults == []


@needs_haproxy
def test_a_rolling_restart_fails_no_request(tmp_path: Path) -> None:
    with loaded(tmp_path, 3) as (replicas, load):
        for replica in replicas:
            replica.stop()
            load.until_answered(20)
            replica.start()
            load.until_answered(20)


@needs_haproxy
def test_a_killed_replica_fails_no_request(tmp_path: Path) -> None:
    with loaded(tmp_path, 2) as (replicas, load):
        replicas[0].kill()
        load.until_answered(100)


@needs_haproxy
def test_the_configuration_of_compose_is_valid() -> None:
    files = ["-f", str(FOLDER / "haproxy.cfg"), "-f", str(FOLDER / "compose.cfg")]
    checked = subprocess.run(["haproxy", "-c", *files], check=False, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr + checked.stdout
    assert "[WARNING]" not in checked.stderr


def test_the_proxy_takes_over_the_published_port() -> None:
    services = OVERLAY["services"]
    assert services["elmo"]["ports"] == []
    assert services["haproxy"]["ports"][0].startswith("${HTTP_ADDRESS:-127.0.0.1}:")
    assert services["haproxy"]["cap_drop"] == ["ALL"]


def test_prometheus_reads_the_same_rules_from_every_replica() -> None:
    folder = ROOT / "docker" / "prometheus"
    one, several = (
        yaml.safe_load((folder / name).read_text()) for name in ("prometheus.yml", "replicas.yml")
    )
    assert one["rule_files"] == several["rule_files"]
    jobs = {job["job_name"]: job for job in several["scrape_configs"]}
    assert jobs["elmo"]["dns_sd_configs"][0]["names"] == ["elmo"]
    assert {job["job_name"] for job in one["scrape_configs"]} <= jobs.keys()
