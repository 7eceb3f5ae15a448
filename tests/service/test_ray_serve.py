"""The service on Ray Serve: its contract, and a node that is killed under load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from elmo_client import Client
from tests.support.answers import Answers
from tests.support.checkpoints import write_pair
from tests.support.http_messages import decoded
from tests.support.servers import SMALL, until, write_task

pytest.importorskip("ray", reason="ray is not installed: `make test-scale` installs it")

from tests.support.ray_cluster import cluster, lose_node, newest
from tests.support.ray_service import (
    SENTENCES,
    RepeatingLoad,
    hold,
    proxy,
    served,
)

pytestmark = [pytest.mark.scale, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def answers() -> Answers:
    return Answers(str(SMALL), SENTENCES)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """Two nodes of one CPU each, one replica's share, and the head with Ray's proxy alone.

    Ray sends all requests to the replicas on the node of the proxy, where there are any.
    """
    with cluster(0, 1, 1) as found:
        yield found


@pytest.fixture(scope="module")
def address(nodes: Any) -> Iterator[str]:
    """Ray's proxy, on the first node."""
    with proxy() as found:
        yield found


def test_the_contract_is_that_of_the_service(address: str, tmp_path: Path) -> None:
    """Two models in one replica, under a prefix; a third one is not there."""
    other = write_pair(tmp_path / "other")
    sentences = [["The", "bank"], [], ["a"] * 30]
    models = {
        None: Answers(str(SMALL), sentences),
        "small": Answers(str(SMALL), sentences),
        "other": Answers(str(other), sentences),
    }
    with (
        served(
            address, tmp_path, "/elmo", models=f"{SMALL},other={other},gone={tmp_path}/gone"
        ) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        described = client.get("/info", headers={"X-Request-Id": "mine"})
        info = described.json()
        assert (info["model"], info["devices"]) == ("small", ["cpu"])
        assert described.headers.get_list("x-request-id") == ["mine"]

        for model, answers in models.items():
            body = {"sentences": sentences} | ({"model": model} if model else {})
            as_json = client.post("/embed", json=body)
            assert as_json.headers["content-type"] == "application/json"
            as_npz = client.post("/embed", json=body, headers={"Accept": "application/x-npz"})
            found = zip(
                as_json.json()["embeddings"],
                decoded("application/x-npz", as_npz.content),
                strict=True,
            )
            for index, (one, array) in enumerate(found):
                assert answers.difference(array, index, {}) < 1
                if sentences[index]:
                    np.testing.assert_allclose(np.array(one, np.float32), array, atol=1e-6)

        wrong = client.post("/embed", json={"sentences": "text"})
        assert (wrong.status_code, wrong.headers["content-type"]) == (
            422,
            "application/problem+json",
        )
        assert client.post("/embed", json={"sentences": [], "model": "no"}).status_code == 404
        as_safetensors = {"Accept": "application/vnd.safetensors"}
        large = {"sentences": [["a"] * 100] * 400}
        response = client.post("/embed", json=large, headers=as_safetensors)
        assert len(decoded("application/vnd.safetensors", response.content)) == 400
        mix = {"weights": [0, 1, 2], "gamma": 1.5}
        write_task(tmp_path / "tasks", "ner", **mix)
        until(lambda: client.get("/tasks/ner").is_success)
        by_task, inline = (
            client.post("/embed", json={"sentences": sentences, **each}, headers=as_safetensors)
            for each in ({"task": "ner"}, {"mix": mix})
        )
        assert by_task.content == inline.content

        with Client(url) as elsewhere:
            assert len(elsewhere.embed(sentences)) == len(sentences)


def test_a_node_is_killed_under_load_and_a_client_that_repeats_loses_nothing(
    nodes: Any, address: str, answers: Answers, tmp_path: Path
) -> None:
    """The node has taken a request that it has not answered."""
    with served(address, tmp_path, num_replicas=2, model=SMALL) as url:
        load = RepeatingLoad(url, answers)
        with load.under_way(clients=12):
            hold(tmp_path, newest(nodes).node_id)
            lose_node(nodes)
            load.until_answered(100)
