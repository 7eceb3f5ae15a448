"""Scores against counts made by hand; spans and legal sequences of BIO labels."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_model.tasks.scores import best_legal, is_bio, legal_transitions, score, span_f1, spans


def test_accuracy_and_f1() -> None:
    found = score(["a", "a", "b", "O"], ["a", "b", "b", "O"])

    assert found.accuracy == 0.75
    # a: 1 of 1 given, 1 of 2 asked; b: 1 of 2 given, 1 of 1 asked; O: all right
    assert found.macro_f1 == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)
    assert found.micro_f1 == pytest.approx(2 * 2 / (3 + 3))
    assert found.span_f1 is None and found.main == 0.75
    assert found.as_dict().keys() == {"accuracy", "macro_f1", "micro_f1"}


def test_a_span_counts_where_bounds_and_type_are_right() -> None:
    wanted = [["B-a", "I-a", "O"], ["B-b", "O"]]

    assert span_f1(wanted, wanted) == 1
    assert span_f1(wanted, [["B-a", "O", "O"], ["B-b", "O"]]) == 0.5
    assert span_f1([["O"]], [["O"]]) == 0


CLASSES = ("B-a", "B-b", "I-a", "I-b", "O")


def is_legal(labels: list[int]) -> bool:
    before = "O"
    for number in labels:
        label = CLASSES[number]
        if label.startswith("I-") and (before == "O" or before[2:] != label[2:]):
            return False
        before = label
    return True


@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_the_best_legal_sequence_is_that_of_a_search_over_all(length: int, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(length, 5)).astype(np.float32)

    found = best_legal(scores, legal_transitions(CLASSES))

    legal = [list(s) for s in itertools.product(range(5), repeat=length) if is_legal(list(s))]
    totals = [sum(float(scores[i, c]) for i, c in enumerate(s)) for s in legal]
    assert found in legal
    total = sum(float(scores[i, c]) for i, c in enumerate(found))
    assert total == pytest.approx(max(totals), abs=1e-5)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("O O", set()),
        ("B-a I-a O B-b", {(0, 2, "a"), (3, 4, "b")}),
        ("B-a B-a", {(0, 1, "a"), (1, 2, "a")}),
        ("B-a I-b", {(0, 1, "a"), (1, 2, "b")}),
        ("O I-a I-a", {(1, 3, "a")}),
        ("B-x-y I-x-y", {(0, 2, "x-y")}),
    ],
)
def test_spans(labels: str, expected: set[tuple[int, int, str]]) -> None:
    assert spans(labels.split()) == expected


def test_labels_are_bio_only_where_all_are() -> None:
    assert is_bio(["B-a", "I-a", "O"])
    assert not is_bio(["O"])
    assert not is_bio(["NOUN", "O", "B-a"])
