"""Recipes count steps and tokens."""

from dataclasses import replace

from elmo_model.training.recipe import RECIPES


def test_epochs_are_counted_in_full_batches() -> None:
    recipe = replace(RECIPES["modern"], rows=4, unroll=5, epochs=2)
    assert recipe.steps_of(105) == 10
    assert recipe.steps_of(3) == 1
    assert recipe.tokens_per_step == 20
