"""How a biLM is trained: optimiser, schedule, softmax, as frozen values."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Recipe:
    """What decides how weights move.

    `rows` are those of all processes together, `unroll` the steps of truncated back-propagation.
    With `scale_by_unroll` the gradient is that of loss times unroll, before the clip to
    `clip_norm`. `warmup` is a share of all steps, `floor` the share of the learning rate that a
    cosine ends at. `samples` of 0 mean the softmax over all words. With `mixed` the products are
    bfloat16 where the device is a GPU, unless another precision is asked for. With `fresh` every
    sentence is read from zero state, as it is served. Without, rows carry their state from
    sentence to sentence for ever, as in bilm-tf: such a network has never seen a zero state and
    answers badly from one, until training is long.
    """

    optimiser: Literal["adagrad", "adamw"]
    learning_rate: float
    schedule: Literal["constant", "cosine"]
    clip_norm: float
    scale_by_unroll: bool
    mixed: bool
    fresh: bool
    warmup: float = 0.0
    floor: float = 0.0
    weight_decay: float = 0.0
    samples: int = 8192
    dropout: float = 0.1
    rows: int = 128
    unroll: int = 20
    epochs: float = 10

    def steps_of(self, pairs: int) -> int:
        """Return the full batches that `pairs` predictions a direction fill in all epochs."""
        return max(1, int(self.epochs * pairs) // (self.rows * self.unroll))


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
        optimiser="adamw",
        learning_rate=5e-3,
        schedule="cosine",
        clip_norm=1.0,
        scale_by_unroll=False,
        mixed=True,
        fresh=True,
        warmup=0.02,
        floor=0.01,
        weight_decay=0.01,
    ),
}
