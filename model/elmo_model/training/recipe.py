"""How a biLM is trained: optimiser, schedule and softmax, as frozen values; shapes by name.

Imports neither torch nor numpy, so that the help of `elmo train` can name them.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

Schedule = Literal["constant", "constant-decay"]
SCHEDULES: tuple[str, ...] = get_args(Schedule)
Optimiser = Literal["adagrad", "muon"]
OPTIMISERS: tuple[str, ...] = get_args(Optimiser)
SoftmaxBias = Literal["zero", "unigram"]
SOFTMAX_BIASES: tuple[str, ...] = get_args(SoftmaxBias)


@dataclass(frozen=True, slots=True)
class Recipe:
    """The options that decide how the weights change.

    - `rows` counts the rows of a batch, `unroll` the steps of truncated back-propagation. A step
      reads rows x unroll tokens in each direction.
    - `scale_by_unroll` takes the gradient of loss x unroll; `clip_norm` bounds its norm afterwards.
    - `learning_rate` is the peak rate. With "muon" it is that of the parameters that AdamW trains,
      and `matrix_rate` that of the matrices (`elmo_model.training.optimiser`).
    - `warmup` is a share of all steps, cut to `warmup_steps` where that is given. `decay` is the
      share of all steps in which "constant-decay" falls, to the share `floor` of the learning rate.
    - `average` is the decay per step of the moving average of the weights, 0 for none. The average
      is the model that is measured and exported.
    - `softmax_bias` is what the biases of the softmax start from: "zero", as in bilm-tf, or the
      logarithm of each word's share of the text, which Adam takes thousands of steps to learn.
    - `samples` counts the words that the sampled softmax draws; 0 is the softmax over all words.
    - `softmax_steps` first steps train the softmax alone, so that a random softmax does not damage
      trained weights (Kumar et al. 2022, for classifiers). They have a learning-rate schedule of
      their own; the main one starts after them.
    - `recurrent_noise` is the standard deviation of the noise that is added to the output of every
      LSTM where the next step reads it; 0 for none. Without it Muon trains networks that amplify
      rounding from token to token (`benchmarks/evaluation/stability.py`).
    - `mixed` computes products in bfloat16 on a GPU unless another precision is chosen.
    - `fresh` reads every sentence from zero state, as the server does. Without it, rows carry their
      state from sentence to sentence for ever, as in bilm-tf: such a network has never seen a zero
      state, and its vectors are poor from one until the training is long.
    """

    optimiser: Optimiser
    learning_rate: float
    schedule: Schedule
    clip_norm: float
    scale_by_unroll: bool
    mixed: bool
    fresh: bool
    warmup: float = 0.0
    warmup_steps: int | None = None
    decay: float = 0.2
    floor: float = 0.0
    weight_decay: float = 0.0
    average: float = 0.0
    matrix_rate: float = 0.006
    softmax_bias: SoftmaxBias = "zero"
    samples: int = 8192
    softmax_steps: int = 0
    recurrent_noise: float = 0.0
    dropout: float = 0.1
    rows: int = 128
    unroll: int = 20
    epochs: float = 10

    @property
    def tokens_per_step(self) -> int:
        """Return the tokens that a step reads in each direction."""
        return self.rows * self.unroll

    def steps_of(self, pairs: int) -> int:
        """Return the full batches that `pairs` predictions a direction fill in all epochs."""
        return max(1, int(self.epochs * pairs) // self.tokens_per_step)


RECIPES = {
    # bilm-tf `bin/train_elmo.py` and `training.py`
    "reference": Recipe(
        optimiser="adagrad",
        learning_rate=0.2,
        schedule="constant",
        clip_norm=10.0,
        scale_by_unroll=True,
        mixed=False,
        fresh=False,
    ),
    "modern": Recipe(
        optimiser="muon",
        learning_rate=5e-3,
        schedule="constant-decay",
        clip_norm=1.0,
        scale_by_unroll=False,
        mixed=True,
        fresh=True,
        warmup=0.02,
        warmup_steps=1000,
        floor=0.01,
        weight_decay=0.01,
        average=0.999,
        recurrent_noise=0.2,
        softmax_bias="unigram",
    ),
}


def lr_factor(recipe: Recipe, step: int, steps: int) -> float:
    """Return the factor of the peak rate in step `step`, counted from 0, of `steps`.

    The rate rises linearly over the warm-up. Then "constant" keeps it, and "constant-decay" keeps
    it until the last `decay` share of the steps and then lets it fall as 1 - sqrt (Hägele et al.
    2024) to `floor`.
    Steps that train the softmax alone are a schedule of their own, without a warm-up.
    """
    alone = min(recipe.softmax_steps, steps)
    if step < alone:
        return _fall(recipe, step, alone)
    step, steps = step - alone, steps - alone
    warmup = round(recipe.warmup * steps)
    if recipe.warmup_steps is not None:
        warmup = min(warmup, recipe.warmup_steps)
    if step < warmup:
        return (step + 1) / warmup
    return _fall(recipe, step, steps)


def _fall(recipe: Recipe, step: int, steps: int) -> float:
    if recipe.schedule == "constant":
        return 1.0
    decay = max(1, round(recipe.decay * steps))
    share = 1 - math.sqrt(max(0.0, min(1.0, 1 - (steps - step) / decay)))
    return recipe.floor + (1 - recipe.floor) * share


_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
_FEWER = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 128), (6, 128))


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes in which networks differ; `filters` are pairs of width and number."""

    cell: int
    projection: int
    highways: int
    filters: tuple[tuple[int, int], ...] = _FILTERS


SHAPES = {
    "tiny": Shape(256, 64, 1, ((1, 16), (2, 16), (3, 32), (4, 64))),
    "half": Shape(768, 192, 1, _FEWER),
    "small": Shape(1024, 128, 1),
    "medium": Shape(2048, 256, 1),
    "original": Shape(4096, 512, 2),
}
DEFAULT_SHAPE = "small"
"""Shapes by name: `tiny` is for tests, `half` for a CPU, the others are published."""
