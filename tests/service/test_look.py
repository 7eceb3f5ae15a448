"""The uses of a word, by sources with made-up and real cosines, and their table."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from elmo_client import Client
from elmo_serve.look import (
    LookError,
    Source,
    Tokens,
    Uses,
    bar,
    look,
    rows,
    source_of_model,
    source_of_server,
)
from elmo_serve.models.in_process import open_network
from tests.support.servers import SMALL, Running

CENTRE = np.array([[1.0, 1.0], [0.0, 0.0]])


def tokens_of(texts: Sequence[str]) -> list[Tokens]:
    return [text.split() for text in texts]


def layers_of(sentences: Sequence[Tokens]) -> list[NDArray[np.float64]]:
    """Return two layers of two numbers a token: its place and 1, and its length and 0."""
    return [
        np.array([[[i, 1] for i in range(len(each))], [[len(token), 0] for token in each]], float)
        if each
        else np.zeros((2, 0, 2))
        for each in sentences
    ]


MADE = Source(tokens_of, layers_of, lambda: CENTRE)


def cosine(one: Sequence[float], two: Sequence[float]) -> float:
    return float(np.dot(one, two) / np.linalg.norm(one) / np.linalg.norm(two))


def test_every_two_uses_of_a_word_are_compared_in_any_case() -> None:
    found = look(MADE, ["The bank and the bank", "Bank of x", "no"], "bank", centred=True)

    assert found.places == [(0, 1), (0, 4), (1, 0)]
    assert list(found.pairs()) == ["1 and 2", "1 and 3", "2 and 3"]
    assert found.names[1] == "2 The bank and the [bank]"
    assert found.title == 'Cosine of uses of "bank", centred'


@pytest.mark.parametrize(
    ("centred", "layer_0", "average"),
    [
        (False, cosine([2, 1], [0, 1]), cosine([3, 1], [1, 1])),
        (True, -1, 0),  # (1, 0) and (-1, 0); the mean of the second is a zero vector
    ],
)
def test_each_layer_and_the_mean_of_the_layers_have_a_cosine(
    centred: bool, layer_0: float, average: float
) -> None:
    found = look(MADE, ["x x a", "a"], "a", centred=centred).pairs()["1 and 2"]

    assert found == pytest.approx({"layer 0": layer_0, "layer 1": 1, "average": average})


def test_the_mean_over_the_tokens_of_a_sentence_is_compared() -> None:
    found = look(MADE, ["a b c d e", "a"], None, centred=False).pairs()["1 and 2"]

    assert found["layer 0"] == pytest.approx(cosine([2, 1], [0, 1]))


def test_the_cosine_with_a_zero_vector_is_0() -> None:
    found = look(MADE, ["x a a", ""], "a", centred=True).pairs()["1 and 2"]

    assert (found["layer 0"], found["layer 1"]) == pytest.approx((0, 1))


def test_without_a_word_the_sentences_are_compared() -> None:
    found = look(MADE, ["a b", "c", ""], None, centred=False)

    assert found.places == [(0, None), (1, None)]
    assert found.title == "Cosine of sentences"
    assert found.names == ["1 a b", "2 c"]


@pytest.mark.parametrize(
    ("texts", "word", "message"),
    [
        (["a b"], "c", '0 uses of "c"'),
        (["a b"], "a", '1 uses of "a"'),
        (["a b", ""], None, "1 sentences with tokens"),
        (["", ""], "a", "0 uses"),
    ],
)
def test_nothing_to_compare_is_named(texts: list[str], word: str | None, message: str) -> None:
    with pytest.raises(LookError, match=message):
        look(MADE, texts, word, centred=True)


def test_the_json_has_places_and_pairs() -> None:
    body = json.loads(json.dumps(look(MADE, ["x a", "a"], "a", centred=True).as_json()))

    assert body["places"] == [{"sentence": 0, "token": 1}, {"sentence": 1, "token": 0}]
    assert body["pairs"] == {
        "1 and 2": {"layer 0": 0.0, "layer 1": 1.0, "average": pytest.approx(0.0)}
    }


USES = Uses("a", [["a", "b"], ["a"]], [(0, 0), (1, 0)], {"0": [0.5], "average": [-0.25]}, True)


def test_a_pair_is_a_row_with_a_cosine_and_a_bar_for_each_layer() -> None:
    assert (USES.title, USES.names) == ('Cosine of uses of "a", centred', ["1 [a] b", "2 [a]"])
    assert rows(USES) == [
        ["pair", "layer 0", "average"],
        ["1 and 2", " 0.500 █████", "-0.250 ░░"],
    ]


def test_a_bar_is_as_long_as_its_cosine() -> None:
    assert bar(1.0) == "█" * 10 and bar(-0.5) == "░" * 5 and bar(0.0) == ""


TEXTS = ["The bank of the river.", "It isn't a bank.", ""]


@pytest.mark.parametrize("word", ["bank", None])
@pytest.mark.parametrize("centred", [True, False])
def test_both_sources_agree(server: Running, word: str | None, centred: bool) -> None:
    own = look(
        source_of_model(open_network(str(SMALL)), "ptb"), TEXTS, word, centred=centred
    ).as_json()
    with Client(server.url) as client:
        theirs = look(source_of_server(client, "ptb"), TEXTS, word, centred=centred).as_json()

    cosines, others = own.pop("pairs")["1 and 2"], theirs.pop("pairs")["1 and 2"]
    assert theirs == own
    assert own["sentences"][1] == ["It", "is", "n't", "a", "bank", "."]
    assert list(others) == ["layer 0", "layer 1", "layer 2", "average"]
    # The server computes in other batches; its vectors differ by rounding.
    assert others == pytest.approx(cosines, abs=1e-4)
    assert cosines["layer 0"] != cosines["layer 2"]
