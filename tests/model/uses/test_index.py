"""The search: the uses and words that comparing all of them finds."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from elmo_model.uses.files import open_index
from elmo_model.uses.index import CANDIDATES, Use, UsesIndex
from elmo_model.uses.indexing import write_index
from tests.support.made_up import DESCRIPTION, LAYERS, WIDTH, MadeUp, made_up_index

SOURCE = random.Random(1)
WORDS = [f"w{number}" for number in range(30)]
SENTENCES = list(
    dict.fromkeys(tuple(SOURCE.choices(WORDS, k=SOURCE.randint(1, 7))) for _ in range(600))
)
PLACES = [(row, token) for row, words in enumerate(SENTENCES) for token in range(len(words))]
QUERY = MadeUp.layers(["w3", "new"])[:, 0]
SHARES = [
    (1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0),
    (1 / 3, 1 / 3, 1 / 3),
    (0.2, 0.5, 0.3),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> UsesIndex:
    return made_up_index(tmp_path_factory.mktemp("index") / "index", SENTENCES)


def cosines(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = vectors @ query / np.linalg.norm(vectors, axis=1)
    return found / np.linalg.norm(query)


@pytest.mark.parametrize("shares", SHARES)
def test_uses_are_those_of_exact_search(index: UsesIndex, shares: tuple[float, ...]) -> None:
    assert len(PLACES) > 2 * CANDIDATES
    layers = np.concatenate([MadeUp.layers(words) for words in SENTENCES], axis=1)
    mixed = np.einsum("l,lnw->nw", np.array(shares), layers - index.centre[:, np.newaxis])
    exact = cosines(mixed, np.array(shares) @ (QUERY - index.centre))

    found = index.nearest_uses(QUERY, shares, 10)

    np.testing.assert_allclose([use.cosine for use in found], np.sort(exact)[::-1][:10], atol=2e-3)
    for use in found:
        number = PLACES.index((SENTENCES.index(use.sentence), use.token))
        assert use.cosine == pytest.approx(exact[number], abs=2e-3)
        assert index.use(number) == Use(use.sentence, use.token, use.line)


class Alike(MadeUp):
    """A network that gives all words of one sentence nearly the same layers."""

    def __init__(self, sentence: Sequence[str]) -> None:
        self._sentence = sentence
        noise = np.random.default_rng(0).normal(scale=1e-3, size=(LAYERS, len(sentence), WIDTH))
        self.alike = (noise + np.tile([1, 0], WIDTH // 2)).astype(np.float32)

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[torch.Tensor]:
        return [
            torch.from_numpy(self.alike if each == self._sentence else self.layers(each))
            for each in sentences
        ]


def test_the_own_sentence_does_not_fill_the_candidates(tmp_path: Path) -> None:
    own = [f"w{number}" for number in range(2 * CANDIDATES)]
    others = [["bank", f"w{number}"] for number in range(15)]
    network = Alike(own)
    write_index(network, [own, *others], tmp_path / "index", DESCRIPTION, 4_000)
    index = open_index(tmp_path / "index")

    for shares in SHARES:
        found = index.nearest_uses(network.alike[:, 0], shares, 30, own)
        assert len(found) == 30
        assert tuple(own) not in {use.sentence for use in found}


def test_the_uses_of_a_form_are_all_of_it_in_the_order_of_the_text(index: UsesIndex) -> None:
    text = [word for words in SENTENCES for word in words]
    expected = [index.use(number) for number, word in enumerate(text) if word == "w3"]

    for offset, limit in ((0, 10), (5, 2), (0, 10_000), (len(expected) - 1, 10), (10**30, 10)):
        found = index.uses_of("w3", offset, limit)
        assert found == (len(expected), expected[offset : offset + limit])
    assert index.uses_of("W3", 0, 10) == (0, [])


def test_of_equal_sentences_the_first_counts(tmp_path: Path) -> None:
    index = made_up_index(tmp_path / "index", [["a", "b"]] * 5 + [["b", "c"]])

    found = index.nearest_uses(QUERY, (0, 0, 1), 10)

    places = sorted((use.sentence, use.token) for use in found)
    assert places == [(("a", "b"), 0), (("a", "b"), 1), (("b", "c"), 0), (("b", "c"), 1)]


def test_static_neighbours_are_words_by_the_token_layer(index: UsesIndex) -> None:
    layers = np.stack([MadeUp.layers([word])[0, 0] for word in WORDS]) - index.centre[0]
    exact = cosines(layers, QUERY[0] - index.centre[0])

    found = index.nearest_words(QUERY[0], 5, exclude="w3")

    order = [WORDS[row] for row in np.argsort(-exact) if WORDS[row] != "w3"][:5]
    assert [word.word for word in found] == order
    assert index.nearest_words(QUERY[0], 1)[0].word == "w3"


def test_a_zero_vector_has_cosines_of_zero(index: UsesIndex) -> None:
    found = index.nearest_uses(index.centre, (0, 1, 0), 2)

    assert [use.cosine for use in found] == [0, 0]


def test_examples_are_frequent_words_whose_uses_differ_most(tmp_path: Path) -> None:
    """The made-up network gives other vectors to a word in another sentence or place."""
    fillers = [f"f{number}" for number in range(20)]
    frequent = [f"c{chr(97 + number // 10)}{chr(97 + number % 10)}" for number in range(100)]
    differing, alike = ["one", "two", "three", "four", "five", "sixth"], ["same"]
    text = [[word] * 20 for word in frequent]  # the most frequent ones are left out
    text += [[word, *fillers[: 3 + row]] for row in range(9) for word in differing]
    text += [["x", *alike, "a"] for _ in range(9)]  # one sentence nine times: equal vectors
    index = made_up_index(tmp_path / "index", text)

    examples = index.info.examples

    assert len(examples) == 4
    assert {each.word for each in examples} < set(differing)
    top, found = index.vectors[-1].astype(np.float64), {}
    for word in differing:
        rows = [n for n, number in enumerate(index.tokens) if index.words[number] == word][:8]
        unit = top[rows] / np.linalg.norm(top[rows], axis=1, keepdims=True)
        found[word] = ((unit @ unit.T).sum() - 8) / 56
    assert [each.word for each in examples] == sorted(differing, key=found.__getitem__)[:4]
    for each in examples:
        expected = [words for words in text if words[0] == each.word and len(words) >= 5]
        assert each.sentences == tuple(" ".join(words) for words in expected[:4])


def test_a_small_text_has_no_examples(index: UsesIndex) -> None:
    assert index.info.examples == ()
