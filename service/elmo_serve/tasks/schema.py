"""A task and its scalar mix as pydantic models: bodies of requests, responses and task files."""

import json
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    Strict,
)
from pydantic_core import PydanticCustomError

from elmo_model.network.task import TASK_NAME
from elmo_serve.output import MAX_FLOAT32, MAX_GAMMA
from elmo_serve.schema import FAULT, ModelName, optional

MAX_DESCRIPTION_CHARACTERS: Final = 1_000

MOST_LAYERS: Final = 256
"""Longest list of layers or weights that is read. No model has more layers."""


def _as_json(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object that can be written as JSON again; refuse NaN and infinite numbers."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise PydanticCustomError(FAULT, "must have finite numbers alone") from None
    return value


Fit = Annotated[dict[str, Any], AfterValidator(_as_json)]
Number = Annotated[FiniteFloat, Strict(), Field(ge=-MAX_FLOAT32, le=MAX_FLOAT32)]
Gamma = Annotated[FiniteFloat, Strict(), Field(ge=-MAX_GAMMA, le=MAX_GAMMA)]
TaskName = Annotated[str, Field(pattern=f"^{TASK_NAME}$")]
Weights = Annotated[list[Number], Field(min_length=1, max_length=MOST_LAYERS)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Mix(_Body):
    """A scalar mix: gamma x sum_j softmax(weights)_j h_j (Peters et al. 2018, equation 1)."""

    weights: Weights = Field(
        description="One raw scalar a layer, before the softmax: AllenNLP's `scalar_parameters`."
    )
    gamma: Gamma = optional(1.0, "Scale of the mix. Default: 1.")
    layer_norm: Annotated[bool, Strict()] = optional(
        False,
        "Normalise each layer first, by its mean and variance over the sentence. Default: false.",
    )


class TaskBody(Mix):
    """A task to register; its name is the one in the path."""

    name: TaskName | None = optional(None, "May be left out; if given, the same as in the path.")
    model: ModelName | None = optional(
        None, "The model that the task is for. Default: the first one."
    )
    revision: str | None = optional(
        None, "The revision of its weights; another one is refused.", max_length=64
    )
    description: str = optional(
        "", "For people. Default: empty.", max_length=MAX_DESCRIPTION_CHARACTERS
    )
    fit: Fit | None = optional(
        None, "What the weights were learned from, as `elmo fit` says it; kept in the task's file."
    )


class TaskResponse(BaseModel):
    """A registered task."""

    name: str
    weights: list[float]
    gamma: float
    layer_norm: bool
    description: str
    model: str = Field(description="The model that the task is for.")
    revision: str = Field(description="The revision of its weights.")


class TaskList(BaseModel):
    """All registered tasks, by name."""

    tasks: list[TaskResponse]
