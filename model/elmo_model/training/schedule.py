"""The learning rate of every step, as a share of its peak."""

import math

from elmo_model.training.recipe import Recipe


def rate_share(recipe: Recipe, step: int, steps: int) -> float:
    """Return the share of the peak rate that step `step` has, counted from 0, of `steps`.

    The rate rises linearly over the warm-up. Then "constant" keeps it, "cosine" lets it fall as
    half a cosine until the last step, and "constant-decay" keeps it until the last `decay` share of
    the steps and then lets it fall as 1 - sqrt (Hägele et al. 2024). Both falls end at `floor`.
    In steps that train the softmax alone the rate is at its peak; the warm-up follows them.
    """
    if step < recipe.softmax_steps:
        return 1.0
    step, steps = step - recipe.softmax_steps, steps - recipe.softmax_steps
    warmup = round(recipe.warmup * steps)
    if recipe.warmup_steps is not None:
        warmup = min(warmup, recipe.warmup_steps)
    if step < warmup:
        return (step + 1) / warmup
    if recipe.schedule == "constant":
        return 1.0
    if recipe.schedule == "cosine":
        done = min(1.0, (step - warmup) / max(1, steps - warmup))
        share = 0.5 * (1 + math.cos(math.pi * done))
    else:
        decay = max(1, round(recipe.decay * steps))
        share = 1 - math.sqrt(max(0.0, min(1.0, 1 - (steps - step) / decay)))
    return recipe.floor + (1 - recipe.floor) * share
