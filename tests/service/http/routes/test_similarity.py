"""POST /similarity: cosines of sentences and of tokens, centred or not."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

FIRST, SECOND = ["The", "bank", "of", "the", "river"], ["A", "bank", "lends", "money", "."]


def compare(client: httpx.Client, *pairs: list[dict[str, Any]], **options: Any) -> Any:
    body = {"pairs": pairs, **options}
    return client.post("/similarity", json=body).raise_for_status().json()


def layers(client: httpx.Client, tokens: list[str]) -> NDArray[np.float64]:
    """Return all layers of a sentence and their average, (L + 2, n, 2P)."""
    body = {"sentences": [tokens]}
    found = np.array(client.post("/embed", json=body).raise_for_status().json()["embeddings"][0])
    return np.concatenate([found, found.mean(axis=0, keepdims=True)])


def cosine(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


@pytest.mark.parametrize("places", [(1, 1), (None, None), (1, None)])
@pytest.mark.parametrize("centred", [False, True])
def test_each_layer_has_the_cosine_of_the_two_places(
    client: httpx.Client, places: tuple[int | None, int | None], centred: bool
) -> None:
    sides = [
        {"tokens": tokens, "token": place}
        for tokens, place in zip((FIRST, SECOND), places, strict=True)
    ]
    found = compare(client, sides, centred=centred)

    centre = np.array(client.get("/info/centre").json()["layers"]) if centred else np.zeros((3, 32))
    centre = np.concatenate([centre, centre.mean(axis=0, keepdims=True)])
    vectors = [
        (own.mean(axis=1) if place is None else own[:, place]) - centre
        for own, place in zip((layers(client, FIRST), layers(client, SECOND)), places, strict=True)
    ]
    expected = [cosine(*pair) for pair in zip(*vectors, strict=True)]
    assert list(found["cosine"]) == ["0", "1", "2", "average"]
    np.testing.assert_allclose(
        [found["cosine"][name][0] for name in found["cosine"]], expected, atol=1e-5
    )
    assert found["model"] == "small"
    assert found["usage"] == {"sentences": 2, "tokens": 10}


def test_pairs_keep_their_order_and_text_is_split(client: httpx.Client) -> None:
    first, second = {"text": "The bank of the river", "token": 1}, {"tokens": SECOND, "token": 1}

    both = compare(client, [first, second], [first, first], tokenizer="whitespace")
    tokens = {"tokens": FIRST, "token": 1}

    np.testing.assert_allclose(both["cosine"]["2"][1], 1, atol=1e-5)
    np.testing.assert_allclose(
        both["cosine"]["2"][0], compare(client, [tokens, second])["cosine"]["2"][0], atol=1e-5
    )


def test_no_pairs_have_no_cosines(client: httpx.Client) -> None:
    assert compare(client)["cosine"] == {"0": [], "1": [], "2": [], "average": []}


def test_absent_members_of_a_place_may_be_null_or_an_empty_list(client: httpx.Client) -> None:
    plain: list[dict[str, Any]] = [{"text": "The bank"}, {"tokens": SECOND}]
    padded: list[dict[str, Any]] = [
        {"text": "The bank", "tokens": [], "token": None},
        {"text": None, "tokens": SECOND, "token": None},
    ]
    assert compare(client, padded) == compare(client, plain)
