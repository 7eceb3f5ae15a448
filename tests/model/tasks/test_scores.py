"""Scores against counts made by hand."""

import pytest

from elmo_model.tasks.scores import score, span_f1


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
