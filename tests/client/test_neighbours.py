"""Tokens as POST /neighbours takes them, and the neighbours that it returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from elmo_client import BadAnswer, CannotSend, Neighbour, Neighbours, StaticNeighbour
from elmo_client.transport.requests import json_bytes, neighbours_body
from elmo_client.transport.responses import neighbours_of
from tests.client.both_clients import CLIENTS
from tests.support.servers import Running


def sent(sentence: Any, **options: Any) -> dict[str, Any]:
    body = json_bytes(neighbours_body(sentence, 1, **options), "the request")
    found: dict[str, Any] = orjson.loads(body)
    if "k" not in options:
        assert found.pop("k") == 10  # the default of the method
    return found


def test_a_sentence_is_a_text_or_tokens() -> None:
    assert sent("The bank") == {"text": "The bank", "token": 1}
    assert sent(["The", "bank"]) == {"tokens": ["The", "bank"], "token": 1}
    assert sent(("The", "bank")) == {"tokens": ["The", "bank"], "token": 1}
    assert sent(np.array(["The", "bank"])) == {"tokens": ["The", "bank"], "token": 1}


def test_options_are_sent_when_they_are_given() -> None:
    options = {"layers": 0, "k": 3, "tokenizer": "ptb", "task": "t"}

    assert sent("a b", **options) == {"text": "a b", "token": 1, **options}
    assert sent("a b", mix=[1, 2])["mix"] == {"weights": [1, 2]}
    assert sent("a b", mix=np.array([1.0, 2.0]))["mix"] == {"weights": [1, 2]}
    assert sent("a b", mix={"weights": [1], "gamma": 2})["mix"] == {"weights": [1], "gamma": 2}


@pytest.mark.parametrize("sentence", [3, None, [1], ["a", 2], b"a", iter("ab")])
def test_another_form_is_refused(sentence: Any) -> None:
    with pytest.raises(CannotSend):
        sent(sentence)


@pytest.mark.parametrize("mix", [5, "abc"])
def test_another_form_of_a_mix_is_refused(mix: Any) -> None:
    with pytest.raises(CannotSend, match=f"mix is {mix!r}; expected one weight per layer"):
        sent("a b", mix=mix)


def test_a_response_becomes_neighbours() -> None:
    found = neighbours_of(
        {
            "tokens": ["a", "b"],
            "token": 1,
            "neighbours": [{"sentence": ["c", "b"], "token": 1, "cosine": 0.5}],
            "static": [{"word": "bb", "cosine": 0.25}],
            "model": "english",
        }
    )

    assert found == Neighbours(
        ("a", "b"), 1, (Neighbour(("c", "b"), 1, 0.5),), (StaticNeighbour("bb", 0.25),)
    )
    assert found.neighbours[0].word == "b"
    for wrong in ({}, {"tokens": ["a"]}, {"tokens": 1, "token": 0}):
        with pytest.raises(BadAnswer):
            neighbours_of(wrong)


@pytest.mark.parametrize("kind", CLIENTS)
def test_both_clients_find_neighbours(searched: Running, kind: str) -> None:
    with CLIENTS[kind](searched.url) as client:
        found = client.neighbours(["The", "bank"], 1, layers="average", k=3)
        mixed = client.neighbours("The bank", 1, mix=[0, 0, 0], k=3, tokenizer="whitespace")

    assert found.tokens == ("The", "bank")
    assert [len(found.neighbours), len(found.static)] == [3, 3]
    assert mixed == found
    assert found.neighbours[0].cosine >= found.neighbours[2].cosine
