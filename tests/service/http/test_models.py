"""Several models in one server: each is looked up by name and fails alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.support.checkpoints import write_pair
from tests.support.in_process import in_process
from tests.support.servers import SMALL, Running, running

SENTENCE = ["The", "bank"]


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The golden model, one of four layers, and one whose weights are not there."""
    folder = tmp_path_factory.mktemp("several")
    deep = write_pair(folder / "deep", layers=3, projection=6)
    models = f"{SMALL},four={deep},gone={folder / 'nowhere'}"
    with running(folder, models=models, tasks=folder / "tasks", log_level="debug") as server:
        yield server


def embedded(server: Running, **members: object) -> httpx.Response:
    return httpx.post(server.url + "/embed", json={"sentences": [SENTENCE], **members})


def info(server: Running, **query: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(server.url + "/info", params=query).raise_for_status().json()
    return found


def test_a_request_chooses_its_model(several: Running) -> None:
    first, four = embedded(several).json(), embedded(several, model="four").json()

    assert (first["model"], np.shape(first["embeddings"][0])) == ("small", (3, 2, 32))
    assert (four["model"], np.shape(four["embeddings"][0])) == ("four", (4, 2, 12))
    assert embedded(several, model="SMALL").json() == first


async def test_names_have_no_case_neither_has_that_of_the_checkpoint() -> None:
    async with in_process() as serving:
        models = serving.server.models
        assert (models.first.name, models.first.info.name) == ("small", "fake")

        assert [models.get(name) for name in ("SMALL", "Fake")] == [models.first] * 2


def test_a_model_that_fails_to_load_fails_alone(several: Running) -> None:
    answer = embedded(several, model="gone")

    assert answer.status_code == 503
    assert "/info" in answer.json()["detail"] and "nowhere" not in answer.text, "it has the path"
    assert int(answer.headers["retry-after"]) == 60
    assert embedded(several).status_code == 200
    assert httpx.get(several.url + "/health/live").status_code == 200
    assert "model gone is not served" in several.log


def test_the_bounds_of_a_selection_are_those_of_its_model(several: Running) -> None:
    assert embedded(several, model="four", layers=[3]).status_code == 200
    assert "there are 0 to 2" in embedded(several, layers=[3]).json()["detail"]


def test_without_a_model_that_loads_the_server_ends(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as caught, running(tmp_path, models="a=/no/a,b=/no/b"):
        pass

    assert "/no/a: does not exist" in str(caught.value)
    assert "/no/b: does not exist" in str(caught.value)
    assert "listening" not in str(caught.value)


def test_readiness_names_the_models_that_cannot_answer(several: Running) -> None:
    ready = httpx.get(several.url + "/health/ready")

    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    (gone,) = ready.json()["models"]
    assert (gone["model"], gone["state"]) == ("gone", "failed")
    assert "nowhere" not in gone["reason"]
    assert "nowhere: does not exist" in info(several)["models"][2]["reason"]


def test_info_of_a_model_that_failed_has_the_states_of_all(several: Running) -> None:
    refused = httpx.get(several.url + "/info", params={"model": "gone"})

    assert refused.status_code == 503 and "GET /info" not in refused.text
    assert "gone (failed): " in refused.text and "nowhere: does not exist" in refused.text


def test_info_describes_one_model_and_lists_all(several: Running) -> None:
    first = httpx.get(several.url + "/info").json()
    four = httpx.get(several.url + "/info", params={"model": "four"}).json()

    assert (first["model"], first["layers"], first["dimension"]) == ("small", 3, 32)
    assert (four["model"], four["layers"], four["dimension"]) == ("four", 4, 12)
    assert first["models"] == four["models"]
    states = [(model["model"], model["state"]) for model in first["models"]]
    assert states == [("small", "ready"), ("four", "ready"), ("gone", "failed")]
    assert httpx.get(several.url + "/info", params={"model": "five"}).status_code == 404


def test_a_task_belongs_to_one_model(several: Running) -> None:
    url = several.url + "/tasks"
    several.serve_task("ner", weights=[0, 5, 0])
    for name in ("chunk", "pos"):
        several.serve_task(name, weights=[0, 0, 0, 5], model="four")

    listed = httpx.get(url, params={"model": "four"}).json()["tasks"]
    assert [(task["name"], task["model"]) for task in listed] == [
        ("chunk", "four"),
        ("pos", "four"),
    ]
    assert [task["name"] for task in httpx.get(url).json()["tasks"]] == ["ner"]
    assert embedded(several, model="four", task="pos").status_code == 200
    refused = embedded(several, task="pos")
    assert refused.status_code == 404 and "'four'" in refused.json()["detail"]
