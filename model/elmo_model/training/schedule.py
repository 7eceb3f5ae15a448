"""The learning rate of every step."""

import math

from elmo_model.training.recipe import Recipe


def learning_rate(recipe: Recipe, step: int, steps: int) -> float:
    """Return the rate of step `step`, from 0, of `steps`.

    It rises in a line over the warm-up, then stays, or falls as half a cosine to the floor.
    """
    warmup = round(recipe.warmup * steps)
    if step < warmup:
        return recipe.learning_rate * (step + 1) / warmup
    if recipe.schedule == "constant":
        return recipe.learning_rate
    done = min(1.0, (step - warmup) / max(1, steps - warmup))
    share = recipe.floor + (1 - recipe.floor) * 0.5 * (1 + math.cos(math.pi * done))
    return recipe.learning_rate * share
