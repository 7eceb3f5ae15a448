"""Fits on made-up vectors in which one layer, or a sum of two, holds the label."""

from dataclasses import replace

import numpy as np
import pytest

from elmo_model.tasks.comparison import Scored, compare, digest, split
from elmo_model.tasks.examples import Examples, FitError
from elmo_model.tasks.fitter import FitOptions
from tests.support.made_up_vectors import encode, learned, tagged

OPTIONS = FitOptions(seeds=2, rounds=1, batch=32)
ONE = FitOptions(seeds=1, rounds=2, batch=32)


def test_the_mix_finds_the_layer_that_holds_the_label() -> None:
    found = compare(encode, tagged(40, 0), tagged(20, 1), OPTIONS)

    assert found.rows[0].name == "learned" and found.scored_on == "test"
    assert found.scored == Scored.of(tagged(20, 1))
    assert found.data == digest(tagged(40, 0)) != digest(tagged(40, 1))
    assert found.data != digest(replace(tagged(40, 0), labels=("a",)))
    assert all(weights[1] == max(weights) for weights in found.rows[0].weights)
    assert found.row("layer 1").mean > found.row("layer 0").mean + 0.2
    assert found.rows[0].mean > found.row("average").mean
    assert found.row("sum").mean == pytest.approx(found.row("average").mean, abs=0.05)


def test_without_a_test_part_the_fit_that_validates_best_is_kept() -> None:
    found = compare(encode, tagged(12, 0), None, OPTIONS)

    scores = [each.main for each in found.rows[0].scores]
    assert found.scored_on == "validation" and found.scored.sentences == 1
    assert found.best.validation.main == max(scores) > scores[-1]


def test_sentences_and_pairs_are_fitted_on_means() -> None:
    source = np.random.default_rng(3)
    letters = [["a", "b"][n] for n in source.integers(2, size=60)]
    single = Examples.of_sentences(([f"{c}{n}", f"{c}{n + 1}"], c) for n, c in enumerate(letters))
    pairs = Examples.of_pairs(
        ((([f"a{n}"], None), ([f"{c}{n}"], 0), "same" if c == "a" else "other"))
        for n, c in enumerate(letters)
    )

    for examples in (single, pairs):
        assert learned(examples, ONE).validation.main > 0.8


def test_a_split_never_cuts_a_sentence() -> None:
    examples = tagged(20, 0)
    kept, held = split(examples, 0.25, seed=1)

    groups = examples.groups
    assert {groups[n] for n in kept}.isdisjoint({groups[n] for n in held})
    assert len({groups[n] for n in held}) == 5
    assert sorted([*kept, *held]) == list(range(len(examples)))
    with pytest.raises(FitError, match="leaves 0 of 1 sentences: holds no example"):
        split(tagged(1, 0), 0.1, seed=1)
