"""Scores against counts made by hand, and their standard error against a bootstrap."""

import math

import numpy as np
import pytest

from elmo_model.tasks.scores import MeanScore, Measure, Score, standard_error

LABELS = [["B-a", "I-a", "O"], ["B-b", "O"], ["O"]]


def scored(measure: Measure, wanted: list[list[str]], found: list[list[str]]) -> Score:
    return Score.of(measure, range(len(wanted)), wanted, found)


def test_accuracy_counts_labels_and_f1_spans_with_their_bounds() -> None:
    cut = [["B-a", "O", "O"], ["B-b", "O"], ["O"]]

    assert scored("accuracy", LABELS, cut).value == pytest.approx(5 / 6)
    assert scored("span_f1", LABELS, LABELS).value == 1
    assert scored("span_f1", LABELS, cut).value == 0.5
    assert scored("span_f1", [["O"]], [["O"]]).value == 0


def test_the_residual_of_a_sentence_is_its_part_of_the_error() -> None:
    """One of two spans is right, F = 0.5: r = (2 hits - F (found + gold)) / sum(found + gold)."""
    found = scored("span_f1", LABELS, [["B-a", "O", "O"], ["B-b", "O"], ["B-b"]])

    assert found.value == pytest.approx(2 / 5)
    assert list(found.residuals.values()) == pytest.approx(
        [(0 - 0.4 * 2) / 5, (2 - 0.4 * 2) / 5, (0 - 0.4) / 5]
    )


@pytest.mark.parametrize("measure", ["accuracy", "span_f1"])
def test_the_error_is_that_of_a_bootstrap_over_sentences(measure: Measure) -> None:
    source = np.random.default_rng(0)
    names = ["O", "B-a", "B-b"]
    wanted = [
        [names[n] for n in source.integers(3, size=source.integers(1, 20))] for _ in range(300)
    ]
    found = [[w if source.random() < 0.7 else "O" for w in labels] for labels in wanted]
    pairs = [list(zip(one, two, strict=True)) for one, two in zip(wanted, found, strict=True)]
    hits = np.array([sum(w == f for w, f in pair) for pair in pairs])
    sizes = np.array([len(pair) for pair in pairs])
    if measure == "span_f1":  # each label but O is a span of its own
        hits = np.array([2 * sum(w == f != "O" for w, f in pair) for pair in pairs])
        sizes = np.array([sum((w != "O") + (f != "O") for w, f in pair) for pair in pairs])

    score = MeanScore.of([scored(measure, wanted, found)])

    drawn = source.integers(300, size=(4_000, 300))
    draws = hits[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    assert score.value == pytest.approx(hits.sum() / sizes.sum())
    # The deviation of 4,000 draws has a relative error of 1 / sqrt(8,000), 1.1 %.
    assert score.error == pytest.approx(draws.std(), rel=0.06)


def test_the_mean_over_seeds_has_the_mean_of_the_residuals() -> None:
    one, two = Score(0.5, {0: 0.25, 1: -0.25}), Score(0.7, {1: 0.5, 2: -0.5})

    found = MeanScore.of([one, two])

    assert found.value == pytest.approx(0.6)
    assert found.residuals.tolist() == pytest.approx([0.125, 0.125, -0.25])
    squares = 0.125**2 + 0.125**2 + 0.25**2
    assert found.error == pytest.approx(math.sqrt(3 / 2 * squares))
    assert standard_error(np.array([0.5])) is None


def test_scores_are_compared_by_sentence() -> None:
    """Two fits with the same errors differ by what they do not share alone."""
    source = np.random.default_rng(1)
    shared = source.normal(size=500) / 500
    best = MeanScore(0.8, shared)

    assert best.equals(best) and best.equals(MeanScore(0.8, shared * 2))
    error = standard_error(shared)
    assert error is not None
    assert not best.equals(MeanScore(0.8 - error, shared * 1.01))
    assert best.equals(MeanScore(0.8 - error, -shared))
