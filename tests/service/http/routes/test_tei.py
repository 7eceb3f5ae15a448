"""/tei with the bodies of text-embeddings-inference."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

TEXTS = ["The bank of the river .", "It rains ."]
TOKENS = [text.split() for text in TEXTS]


def post(client: httpx.Client, path: str, **body: Any) -> Any:
    return client.post(path, json=body).raise_for_status().json()


def averages(client: httpx.Client, **options: Any) -> list[NDArray[np.float32]]:
    body = {"sentences": TOKENS, "layers": "average", **options}
    found = client.post("/embed", json=body).raise_for_status().json()["embeddings"]
    return [np.array(each, np.float32) for each in found]


@pytest.mark.parametrize("normalize", [None, True, False])
def test_a_text_is_the_mean_of_its_average_layer(
    client: httpx.Client, normalize: bool | None
) -> None:
    found = post(client, "/tei/embed", inputs=TEXTS, normalize=normalize)

    expected = averages(client, pooling="mean", normalize=normalize is not False)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_every_token_is_the_average_of_its_layers(client: httpx.Client) -> None:
    found = post(client, "/tei/embed_all", inputs=TEXTS)

    for own, expected in zip(found, averages(client), strict=True):
        np.testing.assert_allclose(own, expected, atol=1e-6)


@pytest.mark.parametrize("path", ["/tei/embed", "/tei/embed_all"])
def test_one_text_is_a_list_of_one(client: httpx.Client, path: str) -> None:
    np.testing.assert_allclose(
        post(client, path, inputs=TEXTS[0]), post(client, path, inputs=TEXTS[:1]), atol=1e-6
    )


def test_a_long_text_is_cut_where_the_client_says(client: httpx.Client) -> None:
    words = [f"w{number}" for number in range(1_200)]
    text = " ".join(words)
    refused = client.post("/tei/embed", json={"inputs": text})
    assert refused.status_code == 413
    assert refused.json()["error_type"] == "Validation"
    assert "ELMO_MAX_SENTENCE_TOKENS" in refused.json()["error"]

    for direction, kept in (("Right", words[:1_000]), ("left", words[-1_000:])):
        cut = post(client, "/tei/embed", inputs=text, truncate=True, truncation_direction=direction)
        whole = post(client, "/tei/embed", inputs=" ".join(kept))
        np.testing.assert_allclose(cut, whole, atol=1e-6)


def test_the_address_may_name_a_model(client: httpx.Client) -> None:
    assert len(post(client, "/tei/embed?model=small", inputs="a")) == 1
    answer = client.post("/tei/embed", params={"model": "none"}, json={"inputs": "a"})
    assert answer.status_code == 404
    assert "'small'" in answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "/inputs: is required"),
        ({"inputs": []}, "an empty list"),
        ({"inputs": [1]}, "token ids"),
        ({"inputs": ["a", " "]}, "/inputs/1: holds no token"),
        ({"inputs": "a", "normalize": 1}, "/normalize: must be true or false"),
        ({"inputs": "a", "dimensions": 4}, "/dimensions: must be 32, the width"),
        ({"inputs": "a", "truncate": True, "truncation_direction": "up"}, "'right' or 'left'"),
    ],
)
def test_a_faulty_request_has_a_body_of_that_api(
    client: httpx.Client, body: dict[str, Any], text: str
) -> None:
    answer = client.post("/tei/embed", json=body)

    assert answer.status_code == 422
    assert set(answer.json()) == {"error", "error_type"}
    assert answer.json()["error_type"] == "Validation"
    assert text in answer.json()["error"]


def test_other_fields_are_ignored(client: httpx.Client) -> None:
    body = {"inputs": "a", "prompt_name": "query", "dimensions": None, "raw": True}

    assert len(post(client, "/tei/embed", **body)) == 1


def test_the_width_of_the_model_may_be_asked_for(client: httpx.Client) -> None:
    width = client.get("/info").json()["dimension"]

    (vector,) = post(client, "/tei/embed", inputs="a", dimensions=width)
    assert len(vector) == width


def test_one_base_address_serves_every_client(client: httpx.Client) -> None:
    """Some clients add `/embed` to the address that they are given, others do not."""
    for base in ("/tei", "/"):
        assert post(client, base, inputs=TEXTS) == post(client, "/tei/embed", inputs=TEXTS)
        refused = client.post(base, json={"text": TEXTS})
        assert refused.status_code == 422
        assert refused.json() == {"error": "/inputs: is required", "error_type": "Validation"}
    assert set(client.get("/tei").json()) == {"error", "error_type"}
