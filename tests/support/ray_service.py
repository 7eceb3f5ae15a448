"""The service on Ray Serve on a small cluster, and clients that compare each response."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import ray
from ray import serve

from elmo_serve.distributed.ray_serve import EMBEDDINGS, app
from elmo_serve.http.media_types import safetensors
from tests.support.answers import Answers, sentences
from tests.support.ray_cluster import until
from tests.support.servers import SMALL, free_port

SENTENCES = sentences(None, 240, random.Random(5))
GROUP = 12  # sentences of one request
CLIENTS = 24


@contextmanager
def served(folder: Path, **arguments: object) -> Iterator[str]:
    """Serve on the cluster, and return the address once it is ready."""
    port = free_port()
    serve.start(http_options={"host": "127.0.0.1", "port": port}, proxy_location="HeadOnly")
    settings = {"model": SMALL, "tasks": folder / "tasks", **arguments}
    if "models" in settings:
        del settings["model"]
    serve.run(app({name: str(value) for name, value in settings.items()}), name="elmo")
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: httpx.get(f"{url}/health/ready", timeout=30).status_code == 200)
        yield url
    finally:
        serve.shutdown()


def running_replicas() -> int:
    states = serve.status().applications["elmo"].deployments[EMBEDDINGS].replica_states
    return int(states.get("RUNNING", 0))


def kill_replicas() -> None:
    """Kill all replicas of the engine; Ray starts others."""
    for actor in ray.util.list_named_actors(all_namespaces=True):
        if f"#{EMBEDDINGS}#" in actor["name"]:
            ray.kill(ray.get_actor(actor["name"], actor["namespace"]))


@dataclass
class Load:
    """Clients that send requests without a pause and compare each response.

    While `is_slow`, one client sends alone. `slowest` is the longest time of a request in seconds.
    """

    url: str
    answers: Answers
    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0
    is_slow: threading.Event = field(default_factory=threading.Event)
    _is_over: threading.Event = field(default_factory=threading.Event)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def under_way(self) -> Iterator[None]:
        clients = [threading.Thread(target=self._send, args=(start,)) for start in range(CLIENTS)]
        for client in clients:
            client.start()
        try:
            self.until_answered(2 * CLIENTS)
            yield
            self.until_answered(CLIENTS)
        finally:
            self._is_over.set()
            for client in clients:
                client.join()

    def until_answered(self, more: int) -> None:
        """Wait until so many more requests were answered with vectors."""
        with self._changed:
            goal = self.statuses[200] + more
            assert self._changed.wait_for(
                lambda: self.statuses[200] >= goal or bool(self.faults), 300
            )

    def _send(self, start: int) -> None:
        chosen = random.Random(start)
        with httpx.Client(base_url=self.url, timeout=120) as client:
            while not self._is_over.is_set():
                if start and self.is_slow.is_set():
                    self._is_over.wait(0.1)
                    continue
                indices = chosen.sample(range(len(SENTENCES)), GROUP)
                sent_at = time.monotonic()
                try:
                    response = post(client, indices)
                    self.slowest = max(self.slowest, time.monotonic() - sent_at)
                    fault = self._fault(indices, response)
                    self._note(response.status_code, fault)
                except httpx.HTTPError as error:
                    self._note(0, f"{type(error).__name__}: {error}")

    def _fault(self, indices: list[int], response: httpx.Response) -> str | None:
        if response.status_code == 503:
            is_told = "retry-after" in response.headers
            return None if is_told else f"503 without Retry-After: {response.text[:200]}"
        if response.status_code != 200:
            return f"{response.status_code}: {response.text[:200]}"
        found = safetensors.decode(response.content)
        pairs = zip(indices, found, strict=True)
        is_right = all(self.answers.difference(own, index, {}) < 1 for index, own in pairs)
        return None if is_right else f"wrong vectors: {indices}"

    def _note(self, status: int, fault: str | None) -> None:
        with self._changed:
            self.statuses[status] += 1
            if fault is not None:
                self.faults.append(fault)
            self._changed.notify_all()


def post(client: httpx.Client, indices: list[int], **options: object) -> httpx.Response:
    body = {"sentences": [SENTENCES[index] for index in indices], **options}
    return client.post("/embed", json=body, headers={"Accept": "application/vnd.safetensors"})
