"""Intervals of Student's t."""

import pytest

from elmo_model.study.intervals import Interval


def test_three_seeds_have_the_interval_of_two_degrees_of_freedom() -> None:
    found = Interval.of([0.1, 0.2, 0.3])

    assert found.mean == pytest.approx(0.2)
    assert found.half == pytest.approx(4.303 * 0.1 / 3**0.5)
    assert found.percent() == "20.00 ± 24.84"


def test_one_seed_has_no_interval() -> None:
    assert Interval.of([0.5]) == Interval(0.5, None)
    assert Interval.of([0.5]).percent() == "50.00"
