"""Several models in one server: each is looked up by name and fails alone."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.support.checkpoints import write_pair
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


def test_a_request_chooses_its_model(several: Running) -> None:
    first, four = embedded(several).json(), embedded(several, model="four").json()

    assert (first["model"], np.shape(first["embeddings"][0])) == ("small", (3, 2, 32))
    assert (four["model"], np.shape(four["embeddings"][0])) == ("four", (4, 2, 12))
    assert embedded(several, model="SMALL").json() == first


def test_an_unknown_model_is_refused_with_the_names(several: Running) -> None:
    answer = embedded(several, model="five")

    assert answer.status_code == 404
    assert answer.json()["type"] == "urn:elmo-serve:error:unknown-model"
    assert answer.json()["detail"] == "Unknown model 'five'; there are 'small', 'four', 'gone'"


def test_a_model_that_fails_to_load_fails_alone(several: Running) -> None:
    answer = embedded(several, model="gone")

    assert answer.status_code == 503
    assert "nowhere: does not exist" in answer.json()["detail"]
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
