"""Fits on made-up vectors in which one layer alone, or a sum of two, holds the label."""

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from elmo_model.fitting.comparison import compare, digest, split
from elmo_model.fitting.examples import Examples, FitError
from elmo_model.fitting.features import features_of
from elmo_model.fitting.fitter import FitOptions
from elmo_model.fitting.report import document, picture, text
from elmo_model.layers.scalar_mix import layer_norm, mix, normalise

OPTIONS = FitOptions(seeds=2, rounds=3, batch=32)
WIDTH = 8


def encode(sentences: Sequence[Sequence[str]]) -> list[Tensor]:
    """Map words to vectors of which layer 1 alone tells the words apart; layer 0 and 2 are noise.

    The vectors of a sentence depend on that sentence alone.
    """
    found = []
    for sentence in sentences:
        seed = zlib.crc32(" ".join(sentence).encode())
        layers = np.random.default_rng(seed).normal(size=(3, len(sentence) + 2, WIDTH))
        for place, word in enumerate(sentence, 1):
            layers[1, place, : ord(word[0]) % 3 + 1] += 3
        found.append(torch.from_numpy(layers.astype(np.float32)))
    return found


def tagged(count: int, seed: int) -> Examples:
    source = np.random.default_rng(seed)
    words = ["a", "b", "c"]
    sentences = [[words[n] + str(source.integers(99)) for n in source.integers(3, size=4)]
                 for _ in range(count)]  # fmt: skip
    return Examples.of_tokens((s, [f"is-{word[0]}" for word in s]) for s in sentences)


def test_the_mix_finds_the_layer_that_holds_the_label() -> None:
    found = compare(encode, tagged(80, 0), tagged(40, 1), OPTIONS)

    assert found.rows[0].name == "learned" and found.scored_on == "test"
    assert all(weights[1] == max(weights) for weights in found.rows[0].weights)
    assert found.row("layer 1").mean > found.row("layer 0").mean + 0.2
    assert found.rows[0].mean > found.row("average").mean
    assert found.row("sum").mean == pytest.approx(found.row("average").mean, abs=0.05)
    shown = text(found)
    assert "learned" in shown and "█" in shown
    assert document(found)["mixtures"]["learned"]["mean"] == found.rows[0].mean
    assert picture(found, "a <task>").count("<circle") == 6


def test_a_seed_and_the_data_decide_the_result() -> None:
    one, two = (compare(encode, tagged(30, 0), None, OPTIONS) for _ in range(2))

    assert one.scored_on == "validation"
    assert one.best.weights == two.best.weights and one.best.gamma == two.best.gamma
    assert one.data == two.data == digest(tagged(30, 0)) != digest(tagged(30, 1))


def test_sentences_and_pairs_are_fitted_on_means() -> None:
    source = np.random.default_rng(3)
    letters = [["a", "b"][n] for n in source.integers(2, size=60)]
    single = Examples.of_sentences(([f"{c}{n}", f"{c}{n + 1}"], c) for n, c in enumerate(letters))
    pairs = Examples.of_pairs(
        ((([f"a{n}"], None), ([f"{c}{n}"], 0), "same" if c == "a" else "other"))
        for n, c in enumerate(letters)
    )

    for examples in (single, pairs):
        assert compare(encode, examples, None, OPTIONS).rows[0].mean > 0.8


def test_bio_predictions_are_legal_and_scored_by_spans() -> None:
    examples = Examples.of_tokens(
        (["a1", f"b{n}", f"c{n}"], ["O", "B-x", "I-x"]) for n in range(40)
    )

    found = compare(encode, examples, None, OPTIONS)

    assert found.rows[0].scores[0].span_f1 is not None
    assert found.rows[0].mean > 0.8


def test_the_strongest_penalty_keeps_the_average() -> None:
    options = FitOptions(seeds=1, rounds=2, l2_weights=1e4)

    (weights,) = compare(encode, tagged(60, 0), None, options).rows[0].weights

    assert weights == pytest.approx((1 / 3,) * 3, abs=0.01)


def test_features_are_those_of_the_service(tmp_path: Path) -> None:
    examples = Examples.of_sentences([(["a1", "b2"], "x"), ([], "y"), (["c3"], "x")])
    weights, gamma = (0.3, -1.0, 0.5), 1.7

    for normed in (False, True):
        with features_of(encode, examples, layer_norm=normed, memory_bytes=0) as found:
            rows = mix(found.rows(np.arange(3))[:, :, 0], normalise(weights), gamma)
            assert isinstance(found.vectors, np.memmap)
        for sentence, row in zip(examples.sentences, rows, strict=True):
            (layers,) = encode([sentence])
            layers = layer_norm(layers) if normed else layers
            mixed = mix(layers, normalise(weights), gamma)[1:-1]
            expected = mixed.mean(dim=0) if len(sentence) else torch.zeros(WIDTH)
            torch.testing.assert_close(row, expected, rtol=0, atol=1e-5)


def test_a_split_never_cuts_a_sentence() -> None:
    examples = tagged(20, 0)
    kept, held = split(examples, 0.25, seed=1)

    groups = examples.groups
    assert {groups[n] for n in kept}.isdisjoint({groups[n] for n in held})
    assert len({groups[n] for n in held}) == 5
    assert sorted([*kept, *held]) == list(range(len(examples)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation": 0.0}, "validation is 0.0, expected above 0 and below 1"),
        ({"seeds": 0}, "seeds is 0"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"l2_weights": -1.0}, "l2_weights is -1.0"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(FitError, match=message):
        FitOptions(**options)  # type: ignore[arg-type]


def test_one_class_is_refused() -> None:
    with pytest.raises(FitError, match="all 2 examples have the label 'x'"):
        compare(encode, Examples.of_sentences([(["a"], "x"), (["b"], "x")]), None, OPTIONS)
