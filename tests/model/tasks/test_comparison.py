"""Fits on made-up vectors in which one layer, or a sum of two, holds the label."""

from collections.abc import Sequence

import numpy as np
import pytest

from elmo_model.tasks.comparison import compare, digest, has_span, split
from elmo_model.tasks.examples import Examples, FitError
from elmo_model.tasks.fitter import FitOptions
from tests.support.made_up import encode, learned, tagged

OPTIONS = FitOptions(seeds=2)
ONE = FitOptions(seeds=1)


def spanned(*sentences: Sequence[str], are_spans: bool = True) -> Examples:
    """Return sentences with these labels; the first letter of a word tells its label."""
    words = {"B": "a", "I": "b", "O": "c"}
    numbers = iter(range(10_000))
    return Examples.of_tokens(
        (
            ([f"{words[label[0]]}{next(numbers)}" for label in labels], labels)
            for labels in sentences
        ),
        are_spans=are_spans,
    )


def test_the_mix_finds_the_layer_that_holds_the_label() -> None:
    found = compare(encode, tagged(40, 0), tagged(20, 1), ONE)

    assert [row.name for row in found.rows] == [
        "learned",
        "average",
        "layer 0",
        "layer 1",
        "layer 2",
    ]
    assert (found.scored.part, found.scored.measure) == ("test", "accuracy")
    assert (found.scored.sentences, found.scored.examples, found.scored.spans) == (20, 80, None)
    assert found.data == digest(tagged(40, 0)) != digest(tagged(40, 1))
    assert found.data != digest(spanned("BO"))
    assert all(weights[1] == max(weights) for weights in found.rows[0].weights)
    assert found.row("layer 1").mean.value > found.row("layer 0").mean.value + 0.2
    assert found.rows[0].mean.value > found.row("average").mean.value - 0.05
    assert "layer 1" in found.equal and not {"layer 0", "layer 2"} & found.equal.keys()


def test_without_a_test_part_the_fit_that_validates_best_is_kept() -> None:
    found = compare(encode, tagged(12, 0), None, OPTIONS)

    scores = [each.value for each in found.rows[0].scores]
    assert found.scored.part == "validation" and found.scored.sentences <= 2
    assert found.best.validation.value == max(scores)
    assert found.rows[0].scores == found.rows[0].validation


def test_the_measure_is_span_f1_where_training_and_scored_part_have_spans() -> None:
    train = spanned(*["BIO", "OBI", "OOO", "BOO"] * 5)

    found = compare(encode, train, spanned("BIO", "OO"), ONE)

    assert (found.scored.measure, found.scored.reason, found.scored.spans) == ("span_f1", "", 1)


@pytest.mark.parametrize(
    ("train", "test", "reason", "spans"),
    [
        (spanned(*["BIO", "OOO"] * 5), spanned("OOO", "O"), "part has no span", 0),
        (
            spanned(*["BIO", *["OOO"] * 9]),
            spanned("BIO", *["OO"] * 3),
            "fewer than two training sen",
            1,
        ),
        (spanned(*["BIO", "OOO"] * 5, are_spans=False), spanned("BIO"), "no spans", None),
    ],
)
def test_the_measure_is_else_the_accuracy_and_the_reason_is_told(
    train: Examples, test: Examples, reason: str, spans: int | None
) -> None:
    found = compare(encode, train, test, ONE)

    assert found.scored.measure == "accuracy" and reason in found.scored.reason
    assert found.scored.spans == spans
    assert found.rows[0].mean.value > 0.5  # the accuracy, not a span F1 of nothing


def test_one_sentence_with_a_span_is_exchanged_into_a_part_without() -> None:
    """For every seed, and for both parts."""
    rare = spanned(*["OO"] * 38, "BI", "BO")
    frequent = spanned(*["BO"] * 2, *["OO"] * 2)

    for seed in range(30):
        for examples, validation in ((rare, 0.1), (frequent, 0.5)):
            kept, held = split(examples, validation, seed)
            for part in (kept, held):
                assert any(has_span(examples.labels[number]) for number in part)
            count = len(examples.sentences)
            assert sorted([*kept, *held]) == list(range(count))
            drawn = np.random.default_rng(seed).permutation(count)[: len(held)]
            assert len(set(drawn) - set(held)) <= 1
        kept, _ = split(spanned(*["OO"] * 9, "BI"), 0.5, seed)
        assert 9 in kept  # the only one


def test_means_of_sentences_are_fitted() -> None:
    source = np.random.default_rng(3)
    letters = [["a", "b"][n] for n in source.integers(2, size=60)]
    single = Examples.of_sentences(([f"{c}{n}", f"{c}{n + 1}"], c) for n, c in enumerate(letters))

    assert learned(single).validation.value > 0.8


def test_a_split_never_cuts_a_sentence() -> None:
    examples = tagged(20, 0)
    kept, held = split(examples, 0.25, seed=1)

    assert len(held) == 5 and sorted([*kept, *held]) == list(range(20))
    with pytest.raises(FitError, match="no example"):
        split(tagged(1, 0), 0.1, seed=1)
