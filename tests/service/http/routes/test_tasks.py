"""/tasks: named scalar mixes, read from a folder of files."""

from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from elmo_model import checkpoints
from elmo_serve.http.media_types import npz
from tests.support.embeddings import decoded
from tests.support.servers import SMALL, Running, running, until, write_task

NER = {"weights": [0.5, -1.0, 2.0], "gamma": 1.5, "layer_norm": True, "description": "names"}
SENTENCES = [["The", "cat", "sat", "."], [], ["alone"]]

FIRST = {"model": "small", "revision": checkpoints.load(SMALL).origin.revision}

pytestmark = pytest.mark.usefixtures("tasks")


def is_served(url: str) -> bool:
    return httpx.get(url).is_success


def vectors(client: httpx.Client, **wanted: Any) -> list[Any]:
    response = client.post(
        "/embed",
        json={"sentences": SENTENCES, **wanted},
        headers={"Accept": npz.ENCODER.media_type},
    )
    assert response.status_code == 200, response.text
    return decoded(npz.ENCODER.media_type, response.content)


def test_a_file_is_a_task_until_it_is_deleted(
    server: Running, client: httpx.Client, tasks: Path
) -> None:
    """The laws of the folder itself are in tests/service/test_tasks.py."""
    ner = {"name": "ner", **NER, **FIRST}
    assert client.get("/tasks").json() == {"tasks": []}
    server.serve_task("ner", **NER, fit={"seeds": 3})
    assert client.get("/tasks/ner").json() == ner
    server.serve_task("coref", weights=[1, 2, 3])
    usual = {"gamma": 1.0, "layer_norm": False, "description": ""}
    coref = {"name": "coref", "weights": [1.0, 2.0, 3.0], **usual, **FIRST}
    assert client.get("/tasks").json() == {"tasks": [coref, ner]}

    (tasks / "coref.json").unlink()

    until(lambda: client.get("/tasks/coref").status_code == 404)
    assert client.get("/tasks").json() == {"tasks": [ner]}


@pytest.mark.parametrize(
    ("fit", "shown"),
    [
        ({"measure": "span_f1", "score": 0.5}, {"fit": {"measure": "span_f1"}}),
        ({"measure": "accuracy"}, {"fit": {"measure": "accuracy"}}),
        ({"score": 0.5}, {}),
        ({"measure": ["f1"]}, {}),
        ("by hand", {}),
    ],
)
def test_the_measure_of_a_fit_is_shown(
    server: Running, client: httpx.Client, fit: object, shown: dict[str, object]
) -> None:
    server.serve_task("ner", **NER, fit=fit)

    assert client.get("/tasks/ner").json() == {"name": "ner", **NER, **FIRST, **shown}
    assert client.get("/tasks").json()["tasks"] == [{"name": "ner", **NER, **FIRST, **shown}]


def test_a_task_gives_the_vectors_of_its_mix(server: Running, client: httpx.Client) -> None:
    for number in range(3):
        mix = {"weights": [number, 0, -number], "gamma": 1 + number / 7}
        server.serve_task("ner", **mix)

        for one, two in zip(vectors(client, task="ner"), vectors(client, mix=mix), strict=True):
            np.testing.assert_array_equal(one, two)


def test_a_file_is_seen_by_all_servers_of_a_folder(server: Running, tmp_path: Path) -> None:
    tasks = server.log_file.parent / "tasks"
    with running(tmp_path, model=SMALL, tasks=tasks) as other:
        path = write_task(tmp_path, "moved", **NER)
        path.rename(tasks / path.name)
        for url in (server.url, other.url):
            until(partial(is_served, f"{url}/tasks/moved"))


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_the_server_writes_no_task(client: httpx.Client, tasks: Path, method: str) -> None:
    answer = client.request(method, "/tasks/ner", json=NER)

    assert answer.status_code == 405 and "GET" in answer.headers["allow"]
    assert not list(tasks.iterdir())


def test_without_a_task_folder_the_server_runs_and_names_the_setting(
    narrow_client: httpx.Client,
) -> None:
    assert narrow_client.get("/tasks").json() == {"tasks": []}
    for answer in (
        narrow_client.get("/tasks/ner"),
        narrow_client.post("/embed", json={"sentences": [], "task": "ner"}),
    ):
        assert answer.status_code == 404
        assert "ELMO_TASKS" in answer.json()["detail"]
    body = {"sentences": [], "mix": {"weights": [1, 2, 3]}}
    assert narrow_client.post("/embed", json=body).status_code == 200
