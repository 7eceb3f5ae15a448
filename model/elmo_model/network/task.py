"""A task: named weights that mix the layers of a biLM into one vector a token."""

from dataclasses import dataclass
from typing import Final

TASK_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
TASK_NAME_RULE: Final = "1 to 64 of A-Z a-z 0-9 . _ - and start with a letter or a digit"
"""The rule for people; it follows "must be"."""


@dataclass(frozen=True, slots=True)
class Task:
    """A scalar mix under a name.

    `weights` are the L + 1 raw scalars, before the softmax (AllenNLP's `scalar_parameters`).
    `gamma` scales the mix. With `layer_norm` each layer is first normalised over its sentence.
    `measure` is the one by which `elmo fit` scored it, "accuracy" or "span_f1"; None: not known.
    """

    name: str
    weights: tuple[float, ...]
    gamma: float = 1.0
    layer_norm: bool = False
    description: str = ""
    measure: str | None = None
