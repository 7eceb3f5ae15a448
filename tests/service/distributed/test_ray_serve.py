"""The service on Ray Serve: three nodes, one of them killed under load; scaling; several models."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from elmo_serve.http.media_types import npz, safetensors
from tests.support.answers import Answers, sentences
from tests.support.checkpoints import write_pair
from tests.support.servers import SMALL, free_port

pytest.importorskip("ray", reason="ray is not installed: `make test-scale` installs it")

from ray import serve

from elmo_serve.distributed.ray_serve import EMBEDDINGS, app
from tests.support.ray_cluster import cluster, until

pytestmark = [pytest.mark.scale, pytest.mark.filterwarnings("ignore")]

SENTENCES = sentences(None, 240, random.Random(5))
GROUP = 12  # sentences of one request
CLIENTS = 24


@pytest.fixture(scope="module")
def answers() -> Answers:
    return Answers(str(SMALL), SENTENCES)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """Three nodes of one CPU each, one engine's share; the HTTP side is on the first."""
    with cluster(1, 1, 1) as found:
        yield found


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


@dataclass
class Load:
    """Clients that send requests without a pause and compare each response.

    While `is_slow`, one client sends alone.
    """

    url: str
    answers: Answers
    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
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
                try:
                    response = post(client, indices)
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


def lost_replicas(url: str) -> float:
    """Return how many requests were on a replica that was lost."""
    name = 'elmo_failures_total{reason="worker_lost"}'
    lines = httpx.get(f"{url}/metrics", timeout=30).text.splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith(name)))


def test_the_contract_is_that_of_the_service(nodes: Any, answers: Answers, tmp_path: Path) -> None:
    with served(tmp_path) as url, httpx.Client(base_url=url, timeout=60) as client:
        info = client.get("/info").json()
        assert (info["model"], info["devices"]) == ("small", ["cpu"])

        body = {"sentences": SENTENCES[:5]}
        as_json = client.post("/embed", json=body)
        assert as_json.headers["content-type"] == "application/json"
        as_npz = client.post("/embed", json=body, headers={"Accept": "application/x-npz"})
        for index, (one, other) in enumerate(
            zip(as_json.json()["embeddings"], npz.decode(as_npz.content), strict=True)
        ):
            assert answers.difference(other, index, {}) < 1
            if SENTENCES[index]:
                np.testing.assert_allclose(np.array(one, np.float32), other, atol=1e-6)

        wrong = client.post("/embed", json={"sentences": "text"})
        assert (wrong.status_code, wrong.headers["content-type"]) == (
            422,
            "application/problem+json",
        )
        assert "use `text`" in wrong.text
        large = client.post("/embed", json={"sentences": [["a"] * 100] * 2_000})
        assert large.status_code == 200
        mix = {"weights": [0, 1, 2], "gamma": 1.5}
        assert client.put("/tasks/ner", json=mix).status_code in (200, 201)
        task = post(client, [0, 1], task="ner")
        inline = post(client, [0, 1], mix=mix)
        assert task.content == inline.content


def test_a_node_is_killed_under_load(nodes: Any, answers: Answers, tmp_path: Path) -> None:
    """Each request is answered with its vectors or told 503, and none is lost."""
    victim = nodes.list_all_nodes()[-1]
    with served(tmp_path, min_replicas=3, max_replicas=3) as url:
        assert running_replicas() == 3, "there is one on each node"
        load = Load(url, answers)
        with load.under_way():
            nodes.remove_node(victim, allow_graceful=False)
            load.until_answered(4 * CLIENTS)

        assert not load.faults, load.faults[:3]
        assert set(load.statuses) <= {200, 503}
        assert lost_replicas(url) > 0
    nodes.add_node(num_cpus=1, object_store_memory=100 * 1024**2)


def test_replicas_follow_the_load_without_an_error(
    nodes: Any, answers: Answers, tmp_path: Path
) -> None:
    with served(
        tmp_path,
        max_replicas=3,
        tokens_per_replica=500,
        upscale_delay_seconds=0,
        downscale_delay_seconds=1,
        metrics_seconds=1,
    ) as url:
        load = Load(url, answers)
        with load.under_way():
            until(lambda: running_replicas() == 3)
            load.until_answered(2 * CLIENTS)
            load.is_slow.set()
            until(lambda: running_replicas() == 1)
            load.is_slow.clear()

        assert not load.faults, load.faults[:3]
        assert set(load.statuses) == {200}


def test_a_replica_holds_as_many_models_as_it_may(
    nodes: Any, answers: Answers, tmp_path: Path
) -> None:
    other = write_pair(tmp_path / "other")
    expected = Answers(str(other), SENTENCES[:3])
    arguments = {"models": f"{SMALL},other={other}", "models_per_replica": 1}
    with served(tmp_path, **arguments) as url, httpx.Client(base_url=url, timeout=120) as client:
        until(lambda: client.get("/info", params={"model": "other"}).status_code == 200)
        for _ in range(2):
            for name, wanted in (("small", answers), ("other", expected)):
                response = post(client, [0, 1, 2], model=name)
                assert response.status_code == 200, response.text
                for index, found in enumerate(safetensors.decode(response.content)):
                    assert wanted.difference(found, index, {}) < 1
        assert client.post("/embed", json={"sentences": [], "model": "no"}).status_code == 404
