"""Modules of the page without a document, run by Node.js."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

ENGLISH = {"format": "allennlp", "tokenizer": "ptb", "language": "en"}
Node = Callable[..., Any]


@pytest.mark.parametrize(
    ("sentences", "word", "first"),
    [
        (["My bank is a bank .", "It lends ."], None, "bank"),
        (["My bank charged me a fee .", "The river banks flooded ."], None, "banks"),
        (["We went home .", "Cats slept here ."], None, "slept"),
        (["The end .", "The river ."], None, "The"),
        (["play the play", "the notes"], "notes", "notes"),
        (["... !", "... !"], None, "..."),
        (["An Ufer", "das Ufer"], "Ufer", "Ufer"),
        (["私 は 川 。", "銀行 。"], None, "銀行"),
    ],
    ids=[
        "recurs",
        "another form",
        "longest",
        "short",
        "of an example",
        "no word",
        "upper case",
        "Japanese",
    ],
)
def test_the_page_begins_with_a_word(
    node: Node, sentences: list[str], word: str | None, first: str
) -> None:
    tokens = [sentence.split() for sentence in sentences]
    expression = (
        "(places => places[page.firstPlace(places, given[1])].word)(page.placesOf(given[0]))"
    )

    assert node("places.js", expression, tokens, word) == first


@pytest.mark.parametrize(
    ("text", "tokenizer", "info", "said"),
    [
        ("The bank , 2024 : Ärger über café", "ptb", ENGLISH, []),
        ("東京 is a city of Japan", "ptb", ENGLISH, []),
        ("私は 川の銀行に座った。", "ptb", ENGLISH, ["reads English words"]),
        ("جلسنا على ضفة النهر .", "ptb", ENGLISH, ["reads English words"]),
        ("Мы сидели", "moses", {**ENGLISH, "language": "ru"}, []),
        ("We sat", "moses", {**ENGLISH, "language": "ru"}, ["reads Russian words"]),
        ("私 は", "moses", {**ENGLISH, "language": "ja"}, []),
        ("a bank", "moses", {**ENGLISH, "language": "no code"}, []),
        ("B A N K", "characters", ENGLISH, ["one character"]),
        ("M E T", "characters", {**ENGLISH, "tokenizer": "characters"}, []),
        ("M", "characters", {**ENGLISH, "tokenizer": "characters"}, []),
        ("a bank", "ptb", {**ENGLISH, "format": "random"}, ["random"]),
        ("bank", "ptb", ENGLISH, ["“bank” stands alone"]),
        ("“ bank .", "whitespace", ENGLISH, ["“bank” stands alone"]),
        ("... 1 !", "ptb", ENGLISH, ["“1” stands alone"]),
    ],
)
def test_a_text_that_the_model_cannot_read_is_named(
    node: Node, text: str, tokenizer: str, info: dict[str, str], said: list[str]
) -> None:
    found = node("reading.js", "page.doubts(...given)", [text.split()], tokenizer, info)

    assert len(found) == len(said)
    assert all(part in sentence for part, sentence in zip(said, found, strict=True))


@pytest.mark.parametrize(
    ("text", "direction"),
    [("The bank .", "ltr"), ("جلسنا على", "rtl"), ("« בנק » x", "rtl"), ("1 2", "ltr")],
)
def test_a_sentence_is_shown_in_the_direction_of_its_script(
    node: Node, text: str, direction: str
) -> None:
    assert node("reading.js", "page.directionOf(given[0])", text.split()) == direction


def test_the_examples_are_those_of_the_index_where_it_has_some(node: Node) -> None:
    own = [{"word": "bank", "sentences": ["the bank lends money .", "do n't bank here"]}]

    for index, word in (({"examples": own}, "bank"), ({"examples": None}, "lead"), (None, "lead")):
        found = node("examples.js", "page.examplesOf(given[0])", {"index": index})
        assert found[0]["word"] == word
    assert node("examples.js", "page.mostTokens(given[0])", own[0]["sentences"]) == 5 + 6


def test_equal_shares_read_alike(node: Node) -> None:
    assert node("numbers.js", "given[0].map(page.percent)", [1 / 3] * 3) == ["33.3 %"] * 3


@pytest.mark.parametrize(
    ("status", "seconds", "loads"),
    [(503, 1, True), (503, 60, False), (503, None, False), (401, 1, False)],
)
def test_a_model_that_is_loaded_is_waited_for(
    node: Node, status: int, seconds: int | None, loads: bool
) -> None:
    refusal = {"status": status, "retrySeconds": seconds}

    assert node("refusal.js", "page.isLoading(given[0])", refusal) is loads


LAYERS, TOKENS, WIDTH = 3, (4, 3), 8
SELECTIONS = {
    "layer": ({"kind": "layer", "layer": 1}, [0.0, 1.0, 0.0]),
    "average": ({"kind": "average"}, [1 / 3] * 3),
    "mixture": (
        {"kind": "mix", "weights": [-1.5, 0, 0.5], "gamma": -2.5},
        list(-2.5 * np.exp([-1.5, 0, 0.5]) / np.exp([-1.5, 0, 0.5]).sum()),
    ),
}


@pytest.fixture(scope="module")
def vectors() -> list[np.ndarray]:
    """Layers of two sentences, each (layers, tokens, width)."""
    draw = np.random.default_rng(5)
    return [draw.normal(1, 1, (LAYERS, count, WIDTH)).astype(np.float32) for count in TOKENS]


@pytest.fixture(scope="module")
def means() -> np.ndarray:
    return np.random.default_rng(6).normal(size=(LAYERS, WIDTH))


def rows_of(factors: list[float], vectors: list[np.ndarray], means: np.ndarray) -> np.ndarray:
    """Return the weighted sum of the layers, less that of their means: (tokens, width)."""
    together = np.concatenate(vectors, axis=1).astype(np.float64)
    return np.asarray(np.tensordot(factors, together - means[:, None], axes=1))


@pytest.mark.parametrize("name", SELECTIONS)
def test_cosines_are_those_of_the_centred_sum_of_the_layers(
    node: Node, name: str, vectors: list[np.ndarray], means: np.ndarray
) -> None:
    selection, factors = SELECTIONS[name]
    tensors = [{"shape": each.shape, "values": each.ravel().tolist()} for each in vectors]

    found = node(
        "vectors.js",
        "(([tensors, means, selection, layers]) => { const f = page.factors(selection, layers);"
        "const rows = page.centred(page.combined(tensors, f), means, f);"
        "return [f, rows.map((row) => [...row]), page.cosines(rows, 2)]; })(given)",
        *(tensors, means.tolist(), selection, LAYERS),
    )

    rows = rows_of(factors, vectors, means)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for mine, theirs in zip(found, (factors, rows, unit @ unit[2]), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


def test_the_map_is_the_pca_of_the_tokens_and_turns_none_around(
    node: Node, vectors: list[np.ndarray], means: np.ndarray
) -> None:
    rows = rows_of([0.0, 1.0, 0.0], vectors, means)
    expression = (
        "(({ points, shares }) => [points, shares,"
        "page.likeBefore(points, points.map(([x, y]) => [-x, y]))])(page.pca(given[0]))"
    )

    points, shares, turned = map(np.array, node("pca.js", expression, rows.tolist()))

    left, scales, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    expected = left[:, :2] * scales[:2]
    signs = np.sign((points * expected).sum(axis=0))
    np.testing.assert_allclose(points, expected * signs, atol=1e-6)
    np.testing.assert_allclose(shares, (scales**2 / (scales**2).sum())[:2], atol=1e-9)
    np.testing.assert_array_equal(turned, points * [-1, 1])


def test_vectors_are_float32_to_the_bit(node: Node, vectors: list[np.ndarray]) -> None:
    body = save({str(i): each for i, each in enumerate(vectors)}, {"tokens": "[]"})
    expression = (
        "(({ tensors, metadata }) => [metadata.tokens, tensors.map(({ shape, values }) =>"
        "[shape, [...values]])])(page.parse(new Uint8Array(given[0]).buffer))"
    )

    tokens, found = node("safetensors.js", expression, list(body))

    assert tokens == "[]"
    for (shape, values), each in zip(found, vectors, strict=True):
        np.testing.assert_array_equal(np.float32(values).reshape(shape), each)
