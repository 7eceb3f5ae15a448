"""Recipes count steps and tokens."""

from dataclasses import replace

from elmo_model.training.recipe import RECIPES


def test_epochs_are_counted_in_full_batches() -> None:
    recipe = replace(RECIPES["modern"], rows=4, unroll=5, epochs=2)
    assert recipe.steps_of(105) == 10
    assert recipe.steps_of(3) == 1


def test_only_a_cosine_has_a_fixed_end() -> None:
    modern = RECIPES["modern"]
    assert not replace(modern, schedule="cosine").can_be_lengthened
    assert replace(modern, schedule="constant-decay").can_be_lengthened
    assert replace(modern, rows=4, unroll=5).tokens_per_step == 20
