"""POST /neighbours: the nearest uses of a token in the text of the program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from elmo_model.uses.text import built_in_sentences
from tests.support.servers import Running

SENTENCE = ["The", "bank", "of", "the", "river"]

# The stored vectors are float16: 11 bits of each number.
TOLERANCE = 2e-3


@pytest.fixture(scope="module")
def searcher(searched: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=searched.url, timeout=300) as client:
        yield client


def find(client: httpx.Client, **body: Any) -> Any:
    response = client.post("/neighbours", json={"tokens": SENTENCE, "token": 1} | body)
    assert response.status_code == 200, response.text
    return response.json()


def centred(client: httpx.Client, tokens: list[str], token: int) -> Any:
    """Return the centred layers of a token, (L + 1, 2P), from /embed and /info/centre."""
    body = {"sentences": [tokens]}
    found = client.post("/embed", json=body).raise_for_status().json()
    centre = client.get("/info/centre").raise_for_status().json()
    return np.array(found["embeddings"][0])[:, token] - np.array(centre["layers"])


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


WEIGHTS = [0.5, -1.0, 2.0]
MIX = {"weights": WEIGHTS, "gamma": -3.0}
SHARES = tuple((np.exp(WEIGHTS) / np.exp(WEIGHTS).sum()).tolist())


@pytest.mark.parametrize(
    ("selection", "shares"),
    [
        ({}, (0, 0, 1)),
        ({"layers": "top"}, (0, 0, 1)),
        ({"layers": None, "task": None, "mix": None}, (0, 0, 1)),
        ({"layers": 0}, (1, 0, 0)),
        ({"layers": 1.0}, (0, 1, 0)),
        ({"layers": "average"}, (1 / 3, 1 / 3, 1 / 3)),
        ({"mix": MIX}, SHARES),
    ],
)
def test_cosines_are_those_of_centred_vectors_of_embed(
    searcher: httpx.Client, selection: dict[str, Any], shares: tuple[float, ...]
) -> None:
    found = find(searcher, k=3, **selection)

    query = np.array(shares) @ centred(searcher, SENTENCE, 1)
    assert len(found["neighbours"]) == 3
    for near in found["neighbours"]:
        own = np.array(shares) @ centred(searcher, near["sentence"], near["token"])
        assert near["cosine"] == pytest.approx(cosine(query, own), abs=TOLERANCE)
    cosines = [near["cosine"] for near in found["neighbours"]]
    assert cosines == sorted(cosines, reverse=True)


def test_the_response_describes_the_query_and_the_text(searcher: httpx.Client) -> None:
    found = find(searcher, k=2)

    text = built_in_sentences()
    info = searcher.get("/info").json()
    assert found["model"] == "small"
    assert found["revision"] == info["revision"]
    assert found["tokens"] == SENTENCE
    assert found["token"] == 1
    assert found["index"] == {
        "text": "uses",
        "tokens": sum(map(len, text)),
        "sentences": len(text),
    }
    assert found["usage"] == {"sentences": 1, "tokens": 5}
    assert len(found["static"]) == 2


def test_static_neighbours_have_the_cosine_of_the_token_layer(searcher: httpx.Client) -> None:
    found = find(searcher, k=5)["static"]

    query = centred(searcher, SENTENCE, 1)[0]
    assert "bank" not in [near["word"] for near in found]
    for near in found:
        own = centred(searcher, [near["word"]], 0)[0]
        assert near["cosine"] == pytest.approx(cosine(query, own), abs=TOLERANCE)


def test_a_task_searches_as_its_mix_does(searched: Running, searcher: httpx.Client) -> None:
    searched.serve_task("mixed", **MIX)

    assert find(searcher, task="mixed")["neighbours"] == find(searcher, mix=MIX)["neighbours"]


def test_the_uses_of_the_sentence_itself_are_left_out(searcher: httpx.Client) -> None:
    sentence = list(built_in_sentences()[0])

    found = find(searcher, tokens=sentence, token=0, k=100)["neighbours"]

    assert len(found) == 100
    assert sentence not in [near["sentence"] for near in found]
    places = [(tuple(near["sentence"]), near["token"]) for near in found]
    assert len(set(places)) == 100


def test_text_is_split_by_the_tokenizer(searcher: httpx.Client) -> None:
    split = find(searcher, tokens=["It", "ca", "n't", "play"], token=3)
    body = {"text": "It can't play", "tokenizer": "ptb", "token": 3}
    found = searcher.post("/neighbours", json=body).raise_for_status().json()

    assert found == split


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"tokens": ["a"], "token": 1}, "/token"),
        ({"tokens": ["a"], "token": 10**99}, "/token"),
        ({"tokens": ["a"], "token": 1e300}, "/token"),
        ({"text": " ", "token": 0}, "/text"),
    ],
)
def test_a_token_that_is_not_there_is_refused(
    searcher: httpx.Client, body: dict[str, Any], pointer: str
) -> None:
    """Other refusals stand in the table of all routes; these need an index."""
    answer = searcher.post("/neighbours", json=body)

    assert answer.status_code == 422, answer.text
    assert [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]
