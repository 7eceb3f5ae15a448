"""A task: named weights that mix the layers of the model into one vector per token."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """A scalar mix that the server keeps under a name.

    `weights` are the L + 1 raw scalars, before the softmax (AllenNLP's `scalar_parameters`);
    `gamma` scales the mix. With `layer_norm` each layer is normalised over its sentence first.
    """

    name: str
    weights: tuple[float, ...]
    gamma: float = 1.0
    layer_norm: bool = False
    description: str = ""
