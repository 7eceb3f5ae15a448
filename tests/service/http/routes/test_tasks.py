"""/tasks: named scalar mixes, kept in a folder, seen by the next request."""

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from elmo_model import checkpoints
from elmo_serve.http.media_types import npz
from elmo_serve.tasks.file import MAX_FILE_BYTES
from tests.support.embeddings import decoded
from tests.support.in_process import in_process
from tests.support.servers import SMALL, until

NER = {"weights": [0.5, -1.0, 2.0], "gamma": 1.5, "layer_norm": True, "description": "names"}
SENTENCES = [["The", "cat", "sat", "."], [], ["alone"]]

FIRST = {"model": "small", "revision": checkpoints.load(SMALL).origin.revision}

pytestmark = pytest.mark.usefixtures("tasks")


def vectors(client: httpx.Client, **wanted: Any) -> list[Any]:
    response = client.post(
        "/embed",
        json={"sentences": SENTENCES, **wanted},
        headers={"Accept": npz.ENCODER.media_type},
    )
    assert response.status_code == 200, response.text
    return decoded(npz.ENCODER.media_type, response.content)


def test_what_is_put_is_there_until_it_is_deleted(client: httpx.Client) -> None:
    """The laws of the folder itself are in tests/service/tasks."""
    ner = {"name": "ner", **NER, **FIRST}
    assert client.get("/tasks").json() == {"tasks": []}
    created = client.put("/tasks/ner", json=NER)
    assert created.status_code == 201
    assert created.json() == client.get("/tasks/ner").json() == ner
    for body, status in ((NER, 201), ({"name": "coref", "weights": [1, 2, 3]}, 200)):
        assert client.put("/tasks/coref", json=body).status_code == status
    usual = {"gamma": 1.0, "layer_norm": False, "description": ""}
    coref = {"name": "coref", "weights": [1.0, 2.0, 3.0], **usual, **FIRST}
    assert client.get("/tasks").json() == {"tasks": [coref, ner]}

    gone = client.delete("/tasks/coref")

    assert (gone.status_code, gone.content) == (204, b"")
    assert client.get("/tasks/coref").status_code == 404
    assert client.delete("/tasks/coref").status_code == 404
    assert client.get("/tasks").json() == {"tasks": [ner]}


def test_what_the_weights_were_learned_from_is_kept_in_the_file(
    client: httpx.Client, tasks: Path
) -> None:
    fit = {"data": "é", "seeds": 3, "scores": [0.9, None, True, {}]}

    client.put("/tasks/ner", json={**NER, "fit": fit}).raise_for_status()

    assert json.loads((tasks / "ner.json").read_text())["fit"] == fit
    assert client.get("/tasks/ner").json() == {"name": "ner", **NER, **FIRST}
    client.put("/tasks/ner", json=NER).raise_for_status()
    assert "fit" not in json.loads((tasks / "ner.json").read_text())


def test_a_task_whose_file_no_server_would_read_is_refused(
    client: httpx.Client, tasks: Path
) -> None:
    """The lines of the file are indented: nested lists take more room there than in the body."""
    nested: list[Any] = []
    for _ in range(150):
        nested = [nested]
    body = {**NER, "fit": {"nested": [nested] * 100}}
    assert len(json.dumps(body)) < MAX_FILE_BYTES

    assert client.put("/tasks/ner", json=body).status_code == 413
    assert not list(tasks.glob("*.json"))


def test_a_put_is_seen_by_the_next_request(client: httpx.Client) -> None:
    for number in range(20):
        mix = {"weights": [number, 0, -number], "gamma": 1 + number / 7}
        client.put("/tasks/ner", json=mix).raise_for_status()

        for one, two in zip(vectors(client, task="ner"), vectors(client, mix=mix), strict=True):
            np.testing.assert_array_equal(one, two)


def test_a_file_that_somebody_puts_is_seen(client: httpx.Client, tasks: Path) -> None:
    (tasks / "by-hand.json").write_text(json.dumps({"name": "by-hand", **NER}))

    until(lambda: client.get("/tasks/by-hand").status_code == 200)
    assert client.get("/tasks/by-hand").json() == {"name": "by-hand", **NER, **FIRST}
    assert [task["name"] for task in client.get("/tasks").json()["tasks"]] == ["by-hand"]


async def test_tasks_are_kept_without_a_setting_and_outlive_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for status in (201, 200):
        async with in_process(tasks=None) as s:
            assert (await s.client.put("/tasks/ner", json=NER)).status_code == status
    assert (tmp_path / "elmo-serve" / "tasks" / "ner.json").is_file()


def test_without_a_task_folder_the_server_runs_and_names_the_setting(
    narrow_client: httpx.Client,
) -> None:
    assert narrow_client.get("/tasks").json() == {"tasks": []}
    for answer, status in (
        (narrow_client.get("/tasks/ner"), 404),
        (narrow_client.put("/tasks/ner", json=NER), 409),
        (narrow_client.delete("/tasks/ner"), 404),
        (narrow_client.post("/embed", json={"sentences": [], "task": "ner"}), 404),
    ):
        assert answer.status_code == status
        assert "ELMO_TASKS" in answer.json()["detail"]
