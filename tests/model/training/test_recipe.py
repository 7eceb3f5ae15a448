"""Recipes count steps and tokens; the rate follows the schedule; shapes have names."""

from dataclasses import replace
from itertools import pairwise

import pytest

from elmo_model.training.recipe import RECIPES, lr_factor


def test_epochs_are_counted_in_full_batches() -> None:
    recipe = replace(RECIPES["modern"], rows=4, unroll=5, epochs=2)
    assert recipe.steps_of(105) == 10
    assert recipe.steps_of(3) == 1
    assert recipe.tokens_per_step == 20


def test_a_rate_that_decays_at_the_end_is_independent_of_the_steps_before() -> None:
    recipe = replace(RECIPES["modern"], schedule="constant-decay", floor=0.01)
    recipe = replace(recipe, warmup=0.5, warmup_steps=4, decay=0.2)
    short, long = ([lr_factor(recipe, step, n) for step in range(n)] for n in (50, 100))
    assert short[:4] == [0.25, 0.5, 0.75, 1.0]
    assert short[:40] == long[:40]
    assert set(short[4:41]) == set(long[4:81]) == {1.0}
    assert all(a > b for a, b in pairwise(short[40:]))
    assert all(a > b for a, b in pairwise(long[80:]))
    assert lr_factor(recipe, 50, 50) == pytest.approx(0.01)


def test_the_rate_of_the_softmax_alone_falls_and_the_warm_up_follows() -> None:
    recipe = replace(RECIPES["modern"], warmup=0.5, warmup_steps=4, decay=0.2, floor=0.1)
    usual = [lr_factor(recipe, step, 50) for step in range(50)]
    recipe = replace(recipe, softmax_steps=10)
    found = [lr_factor(recipe, step, 60) for step in range(60)]
    assert found[:9] == [1.0] * 9
    assert found[9] == pytest.approx(0.1 + 0.9 * (1 - 0.5**0.5))
    assert found[10:] == usual
    # a run of the softmax alone
    assert [lr_factor(recipe, step, 10) for step in range(10)] == found[:10]
