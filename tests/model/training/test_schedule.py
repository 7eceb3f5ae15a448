"""Learning rates rise, stay or fall as the recipe says."""

from dataclasses import replace
from itertools import pairwise

import pytest

from elmo_model.training.recipe import RECIPES
from elmo_model.training.schedule import learning_rate


def test_the_reference_never_changes_its_rate() -> None:
    assert {learning_rate(RECIPES["reference"], step, 50) for step in range(50)} == {0.2}


def test_the_modern_one_warms_up_and_falls_to_its_floor() -> None:
    recipe = replace(RECIPES["modern"], learning_rate=1.0, warmup=0.1, floor=0.01)
    rates = [learning_rate(recipe, step, 100) for step in range(101)]
    assert rates[:10] == pytest.approx([n / 10 for n in range(1, 11)])
    assert rates[10] == 1.0 and rates[55] == pytest.approx(0.505)
    assert rates[100] == pytest.approx(0.01)
    assert all(a >= b for a, b in pairwise(rates[10:]))


def test_epochs_are_counted_in_full_batches() -> None:
    recipe = replace(RECIPES["modern"], rows=4, unroll=5, epochs=2)
    assert recipe.steps_of(105) == 10
    assert recipe.steps_of(3) == 1
