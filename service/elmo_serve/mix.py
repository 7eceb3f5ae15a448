"""A scalar mix of layers as a pydantic model: in bodies of requests and in task files."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, Strict

from elmo_model.network.task import TASK_NAME
from elmo_serve.selection import MAX_FLOAT32, MAX_GAMMA
from elmo_serve.validation import optional

MOST_LAYERS: Final = 256
"""Longest list of layers or weights that is read. No model has more layers."""

Number = Annotated[FiniteFloat, Strict(), Field(ge=-MAX_FLOAT32, le=MAX_FLOAT32)]
Gamma = Annotated[FiniteFloat, Strict(), Field(ge=-MAX_GAMMA, le=MAX_GAMMA)]
TaskName = Annotated[str, Field(pattern=f"^{TASK_NAME}$")]
Weights = Annotated[list[Number], Field(min_length=1, max_length=MOST_LAYERS)]


class Mix(BaseModel):
    """A scalar mix: gamma x sum_j softmax(weights)_j h_j (Peters et al. 2018, equation 1)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weights: Weights = Field(
        description="One raw scalar a layer, before the softmax: AllenNLP's `scalar_parameters`."
    )
    gamma: Gamma = optional(1.0, "Scale of the mix. Default: 1.")
    layer_norm: Annotated[bool, Strict()] = optional(
        False,
        "Normalise each layer first, by its mean and variance over the sentence. Default: false.",
    )
