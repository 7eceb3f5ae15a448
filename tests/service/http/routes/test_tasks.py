"""/tasks: named scalar mixes, read from a folder of files."""

from pathlib import Path

import httpx
import pytest

from elmo_model import checkpoints
from tests.support.servers import SMALL, Running, until

NER = {"weights": [0.5, -1.0, 2.0], "gamma": 1.5, "layer_norm": True, "description": "names"}
FIRST = {"model": "small", "revision": checkpoints.load(SMALL).origin.revision}

pytestmark = pytest.mark.usefixtures("tasks")


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
