"""The service on Ray Serve: three nodes, one of them killed under load; scaling; several models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from elmo_serve.http.media_types import npz, safetensors
from tests.support.answers import Answers
from tests.support.checkpoints import write_pair
from tests.support.servers import SMALL

pytest.importorskip("ray", reason="ray is not installed: `make test-scale` installs it")

from tests.support.ray_cluster import cluster, until
from tests.support.ray_service import (
    CLIENTS,
    SENTENCES,
    kill_replicas,
    load_on,
    post,
    running_replicas,
    served,
)

pytestmark = [pytest.mark.scale, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def answers() -> Answers:
    return Answers(str(SMALL), SENTENCES)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """Three nodes of one CPU each, one engine's share; the HTTP side is on the first."""
    with cluster(1, 1, 1) as found:
        yield found


def lost_replicas(url: str) -> float:
    """Return how many requests were on a replica that was lost."""
    name = 'elmo_failures_total{reason="worker_lost"}'
    lines = httpx.get(f"{url}/metrics", timeout=30).text.splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith(name)))


def test_the_contract_is_that_of_the_service(nodes: Any, answers: Answers, tmp_path: Path) -> None:
    with served(tmp_path) as url, httpx.Client(base_url=url, timeout=60) as client:
        described = client.get("/info", headers={"X-Request-Id": "mine"})
        info = described.json()
        assert (info["model"], info["devices"]) == ("small", ["cpu"])
        assert described.headers.get_list("x-request-id") == ["mine"]

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
        large = client.post(
            "/embed",
            json={"sentences": [["a"] * 100] * 400},
            headers={"Accept": "application/vnd.safetensors"},
        )
        assert len(safetensors.decode(large.content)) == 400
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
        load = load_on(url, answers)
        with load.under_way(CLIENTS):
            nodes.remove_node(victim, allow_graceful=False)
            load.until_answered(4 * CLIENTS)

        assert set(load.phase.refused) <= {503}
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
        load = load_on(url, answers)
        with load.under_way(CLIENTS):
            until(lambda: running_replicas() == 3)
            load.until_answered(2 * CLIENTS)
        with load.under_way(1):
            until(lambda: running_replicas() == 1)
        with load.under_way(CLIENTS):
            load.until_answered(CLIENTS)

        assert not load.phase.refused


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


def test_a_model_that_could_not_be_loaded_is_tried_again(nodes: Any, tmp_path: Path) -> None:
    """Its checkpoint is away while Ray starts a lost replica anew."""
    other, away = write_pair(tmp_path / "other"), tmp_path / "away"
    arguments = {"models": f"{SMALL},other={other}"}
    with served(tmp_path, **arguments) as url, httpx.Client(base_url=url, timeout=120) as client:
        until(lambda: post(client, [0], model="other").status_code == 200)
        other.rename(away)
        kill_replicas()
        until(lambda: f"{other}" in post(client, [0], model="other").text)
        away.rename(other)

        until(lambda: post(client, [0], model="other").status_code == 200, seconds=60)
