"""An index answers as exact search does, and leaves out what tells nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.neighbours.index import CANDIDATES, NeighbourIndex
from elmo_model.neighbours.indexing import index_text
from elmo_model.neighbours.store import open_index
from elmo_model.neighbours.text import TextParts
from elmo_model.text.tokenizers import tokenizer
from tests.support.neighbours import Vectors, centre_of, made_up, manifest_of, write_index

WORDS = [f"w{number}" for number in range(30)]
SOURCE = random.Random(1)
SENTENCES = [SOURCE.choices(WORDS, k=SOURCE.randint(0, 7)) for _ in range(60)]
PARTS = [SENTENCES[:20], SENTENCES[20:45], SENTENCES[45:]]
VECTORS = made_up(SENTENCES)
CENTRED = np.concatenate(VECTORS, axis=1) - centre_of(VECTORS)[:, np.newaxis]
PLACES = [(row, token) for row, sentence in enumerate(SENTENCES) for token in range(len(sentence))]
QUERY = made_up([["w3", "new"]], seed=5)[0][:, 0]
SHARES = [
    (1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0),
    (1 / 3, 1 / 3, 1 / 3),
    (0.2, 0.5, 0.3),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> NeighbourIndex:
    return write_index(tmp_path_factory.mktemp("index") / "index", PARTS, VECTORS)


def exact(shares: tuple[float, ...]) -> Vectors:
    """Return the cosine of every token with the query."""
    vectors = np.einsum("l,lnw->nw", np.array(shares), CENTRED)
    query = np.array(shares) @ (QUERY - centre_of(VECTORS))
    found: Vectors = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    return found


@pytest.mark.parametrize("shares", SHARES)
def test_uses_are_those_of_exact_search(index: NeighbourIndex, shares: tuple[float, ...]) -> None:
    found = index.uses(QUERY, shares, 10)

    cosines = exact(shares)
    np.testing.assert_allclose(
        [use.cosine for use in found], np.sort(cosines)[::-1][:10], atol=2e-3
    )
    for use in found:
        places = [
            number
            for number, (row, token) in enumerate(PLACES)
            if (tuple(SENTENCES[row]), token) == (use.sentence, use.token)
        ]
        assert use.cosine == pytest.approx(cosines[places[0]], abs=2e-3)


def test_the_description_counts_all_parts(index: NeighbourIndex) -> None:
    info = index.info

    assert (info.sentences, info.tokens) == (60, len(PLACES))
    assert info.known_words == len({word for sentence in SENTENCES for word in sentence})


def test_the_sentence_of_the_query_is_left_out(index: NeighbourIndex) -> None:
    row, token = PLACES[40]
    layers = VECTORS[row][:, token]

    itself = index.uses(layers, SHARES[1], 1)[0]
    found = index.uses(layers, SHARES[1], 100, SENTENCES[row])

    assert (itself.sentence, itself.token) == (tuple(SENTENCES[row]), token)
    assert itself.cosine == pytest.approx(1, abs=1e-3)
    assert tuple(SENTENCES[row]) not in {use.sentence for use in found}


class Alike:
    """A network that gives all words of one sentence nearly the same layers."""

    def __init__(self, sentence: Sequence[str]) -> None:
        self._sentence = sentence
        self.layers = made_up([sentence], seed=1)[0] / np.float32(1_000)
        self.layers[..., ::2] += 1

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[torch.Tensor]:
        return [
            torch.from_numpy(self.layers if each == self._sentence else made_up([each])[0])
            for each in sentences
        ]


def test_neither_equal_lines_nor_the_own_sentence_fill_the_candidates(tmp_path: Path) -> None:
    """All uses that the index has are found: 4 + 30 outside of the own sentence."""
    own = [f"w{number}" for number in range(2 * CANDIDATES)]
    header = ["Back", "to", "the", "bank"]
    others = [["bank", f"w{number}"] for number in range(15)]
    lines = [own, *[header] * (2 * CANDIDATES), *others]
    (tmp_path / "text").write_text("".join(" ".join(line) + "\n" for line in lines))
    network = Alike(own)
    text = TextParts(tmp_path / "text", tokenizer("whitespace"), 450)

    index_text(network, text, tmp_path / "index", manifest_of(), 4_000)

    index = open_index(tmp_path / "index")
    (again,) = made_up([header])
    for shares in SHARES:
        near_own = index.uses(network.layers[:, 0], shares, 30, own)
        near_header = index.uses(again[:, 3], shares, 30, header)
        assert (len(near_own), len(near_header)) == (30, 30)
        assert tuple(own) not in {use.sentence for use in near_own}
        assert tuple(header) not in {use.sentence for use in near_header}


def test_of_equal_sentences_the_first_counts(tmp_path: Path) -> None:
    sentences = [["a", "b"]] * 5 + [["b", "c"]]
    vectors = made_up(sentences)
    index = write_index(tmp_path / "index", [sentences], vectors)

    found = index.uses(vectors[0][:, 0], (0, 0, 1), 10)

    assert sorted((use.sentence, use.token) for use in found) == [
        (("a", "b"), 0),
        (("a", "b"), 1),
        (("b", "c"), 0),
        (("b", "c"), 1),
    ]


def test_static_neighbours_are_words_by_the_token_layer(index: NeighbourIndex) -> None:
    words = sorted({word for sentence in SENTENCES for word in sentence})
    layers = np.stack([made_up([[word]])[0][0, 0] for word in words]) - centre_of(VECTORS)[0]
    query = QUERY[0] - centre_of(VECTORS)[0]
    cosines = layers @ query / np.linalg.norm(layers, axis=1) / np.linalg.norm(query)

    found = index.nearest_words(QUERY[0], 5, exclude="w3")

    order = [words[row] for row in np.argsort(-cosines) if words[row] != "w3"][:5]
    assert [word.word for word in found] == order
    assert "w3" not in order
    assert index.nearest_words(QUERY[0], 1)[0].word == "w3"


def test_a_zero_vector_has_cosines_of_zero(tmp_path: Path) -> None:
    index = write_index(tmp_path / "index", [[["a"], ["b"]]], [np.ones((3, 1, 8), np.float32)] * 2)

    found = index.uses(np.ones((3, 8), np.float32), (0, 1, 0), 2)

    assert [use.cosine for use in found] == [0, 0]


def test_threads_find_what_one_finds(index: NeighbourIndex) -> None:
    queries = [made_up([["w1"]], seed)[0][:, 0] for seed in range(40)]

    alone = [index.uses(query, SHARES[4], 10) for query in queries]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda query: index.uses(query, SHARES[4], 10), queries))

    assert together == alone
