"""Tokens as POST /neighbours takes them, and the neighbours that it returns."""

from __future__ import annotations

import numpy as np
import pytest

from elmo_client import BadAnswer, Neighbour, Neighbours, StaticNeighbour
from elmo_client.transport.responses import neighbours_of
from tests.client.both_clients import CLIENTS
from tests.support.servers import Running


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
        mix = np.zeros(3, np.float32)
        mixed = client.neighbours("The bank", 1, mix=mix, k=3, tokenizer="whitespace")

    assert found.tokens == ("The", "bank")
    assert [len(found.neighbours), len(found.static)] == [3, 3]
    assert mixed == found
    assert found.neighbours[0].cosine >= found.neighbours[2].cosine
