"""/v1 as OpenAI's API; the clients that speak it are in tests/openai."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.servers import Running

TEXTS = ["The bank of the river .", "It rains .", "naïve café"]
TOKENS = [text.split() for text in TEXTS]
TASK = {"weights": [0.5, -1.0, 2.0], "gamma": 1.5}


def create(client: httpx.Client, **body: Any) -> Any:
    return client.post("/v1/embeddings", json=body).raise_for_status().json()


def vectors(found: Any) -> NDArray[np.float32]:
    return np.array([each["embedding"] for each in found["data"]], np.float32)


def expected(client: httpx.Client, **selection: Any) -> NDArray[np.float32]:
    """Return the unit vectors of /embed for the tokens of `TEXTS`."""
    body = {"sentences": TOKENS, "pooling": "mean", "normalize": True, **selection}
    answer = client.post("/embed", json=body).raise_for_status()
    return np.array(answer.json()["embeddings"], np.float32)


def test_a_text_is_the_unit_vector_of_its_average_layer(client: httpx.Client) -> None:
    found = create(client, input=TEXTS)

    np.testing.assert_allclose(np.linalg.norm(vectors(found), axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(vectors(found), expected(client, layers="average"), atol=1e-6)
    assert found["object"] == "list"
    assert [each["object"] for each in found["data"]] == ["embedding"] * 3
    assert [each["index"] for each in found["data"]] == [0, 1, 2]
    assert found["model"] == "small"
    count = sum(map(len, TOKENS))
    assert found["usage"] == {"prompt_tokens": count, "total_tokens": count}


def test_one_text_and_lists_of_tokens_are_the_same_vectors(client: httpx.Client) -> None:
    whole = vectors(create(client, input=TEXTS))

    for index, text in enumerate(TEXTS):
        np.testing.assert_allclose(vectors(create(client, input=text))[0], whole[index], atol=1e-6)
    np.testing.assert_allclose(vectors(create(client, input=TOKENS)), whole, atol=1e-6)


@pytest.mark.parametrize("count", [1, 3_000])
def test_base64_holds_the_same_numbers(client: httpx.Client, count: int) -> None:
    """A long response is written by a thread or by helper processes, in parts."""
    texts = [f"text {number} ." for number in range(count)]
    numbers = create(client, input=texts)
    coded = create(client, input=texts, encoding_format="base64")

    assert [each["index"] for each in coded["data"]] == list(range(count))
    assert [each["index"] for each in numbers["data"]] == list(range(count))
    found = [np.frombuffer(base64.b64decode(each["embedding"]), "<f4") for each in coded["data"]]
    np.testing.assert_allclose(found, vectors(numbers), atol=1e-6)
    assert coded["usage"] == numbers["usage"]


@pytest.fixture
def task(server: Running, tasks: Path) -> str:
    server.serve_task("ner", **TASK)
    return "ner"


def test_a_model_may_name_a_task(client: httpx.Client, task: str) -> None:
    found = create(client, input=TEXTS, model=f"small@{task}")

    np.testing.assert_allclose(vectors(found), expected(client, task=task), atol=1e-6)
    assert found["model"] == "small@ner"


def test_models_are_those_of_the_server_and_their_tasks(client: httpx.Client, task: str) -> None:
    found = client.get("/v1/models").raise_for_status().json()

    assert found["object"] == "list"
    assert [each["id"] for each in found["data"]] == ["small", "small@ner"]
    for each in found["data"]:
        assert each["object"] == "model"
        assert each["created"] > 1_700_000_000
        assert client.get(f"/v1/models/{each['id']}").json() == each


def test_fields_of_other_servers_are_ignored(client: httpx.Client) -> None:
    body = {"input": "a", "user": "me", "model": None, "dimensions": None, "truncate": "END"}

    assert len(create(client, **body)["data"]) == 1


def test_the_width_of_the_model_may_be_asked_for(client: httpx.Client) -> None:
    width = client.get("/info").json()["dimension"]

    assert create(client, input="a", dimensions=width) == create(client, input="a")
