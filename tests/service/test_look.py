"""The uses of a word, by sources with made-up and real cosines, and their table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from elmo_client import Client
from elmo_serve.look import (
    LookError,
    Place,
    Source,
    Tokens,
    Uses,
    bar,
    look,
    rows,
    source_of_model,
    source_of_server,
)
from elmo_serve.models.opening import open_network
from tests.support.servers import SMALL, Running


class Made:
    """Splits at spaces; the n-th pair has the cosine n / 10 in each of two layers."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Place, Place]] = []
        self.source = Source(self.tokens, self.cosines)

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        return [text.split() for text in texts]

    def cosines(
        self, sentences: Sequence[Tokens], pairs: Sequence[tuple[Place, Place]]
    ) -> Mapping[str, Sequence[float]]:
        self.pairs = list(pairs)
        values = [number / 10 for number in range(len(pairs))]
        return {"0": values, "1": [-value for value in values], "average": values}


def test_every_two_uses_of_a_word_are_compared_in_any_case() -> None:
    source = Made()
    found = look(source.source, ["The bank and the bank", "Bank of x", "no"], "bank", centred=True)

    places = [(0, 1), (0, 4), (1, 0)]
    assert found.places == places
    assert source.pairs == [(places[0], places[1]), (places[0], places[2]), (places[1], places[2])]
    assert found.pairs()["2 and 3"] == {"layer 0": 0.2, "layer 1": -0.2, "average": 0.2}
    assert found.names[1] == "2 The bank and the [bank]"
    assert found.title == 'Cosine of uses of "bank", centred'


def test_without_a_word_the_sentences_are_compared() -> None:
    found = look(Made().source, ["a b", "c", ""], None, centred=False)

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
        look(Made().source, texts, word, centred=True)


def test_the_json_has_places_and_pairs() -> None:
    body = json.loads(json.dumps(look(Made().source, ["x a", "a"], "a", centred=True).as_json()))

    assert body["places"] == [{"sentence": 0, "token": 1}, {"sentence": 1, "token": 0}]
    assert body["pairs"] == {"1 and 2": {"layer 0": 0.0, "layer 1": 0.0, "average": 0.0}}


USES = Uses("a", [["a", "b"], ["a"]], [(0, 0), (1, 0)], {"0": [0.5], "average": [-0.25]}, True)


def test_a_pair_is_a_row_with_a_cosine_and_a_bar_for_each_layer() -> None:
    assert (USES.title, USES.names) == ('Cosine of uses of "a", centred', ["1 [a] b", "2 [a]"])
    assert rows(USES) == [
        ["pair", "layer 0", "average"],
        ["1 and 2", " 0.500 █████", "-0.250 ░░"],
    ]


def test_a_bar_is_as_long_as_its_cosine() -> None:
    assert bar(1.0) == "█" * 10 and bar(-0.5) == "░" * 5 and bar(0.0) == ""


TEXTS = ["The bank of the river.", "It isn't a bank."]
PAIRS: list[tuple[Place, Place]] = [((0, 1), (1, 4)), ((0, None), (1, None))]


@pytest.mark.parametrize("centred", [True, False])
def test_both_sources_agree(server: Running, centred: bool) -> None:
    local = source_of_model(open_network(str(SMALL)), "ptb", centred=centred)
    with Client(server.url) as client:
        remote = source_of_server(client, "ptb", centred=centred)
        tokens = remote.tokens(TEXTS)
        assert tokens == local.tokens(TEXTS)
        assert tokens[1] == ["It", "is", "n't", "a", "bank", "."]
        theirs, own = (source.cosines(tokens, PAIRS) for source in (remote, local))

    assert list(theirs) == list(own) == ["0", "1", "2", "average"]
    for name in own:
        assert list(theirs[name]) == pytest.approx(list(own[name]), abs=1e-4)
    assert own["0"][0] != own["2"][0]
