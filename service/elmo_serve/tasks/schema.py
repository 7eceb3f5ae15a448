"""A task and its scalar mix as pydantic models: the body of a PUT, of a task file, of a request.

The defaults stand in the descriptions alone, see `http/schemas/embed.py`.
"""

import json
from collections.abc import Callable, Collection
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    FiniteFloat,
    JsonValue,
    Strict,
)
from pydantic_core import PydanticCustomError, PydanticKnownError

from elmo_model.network.task import TASK_NAME
from elmo_serve.output import MAX_FLOAT32, MAX_GAMMA

MAX_NAME_CHARACTERS: Final = 256
"""Longest name of a model that is looked up."""

MAX_DESCRIPTION_CHARACTERS: Final = 1_000

MOST_LAYERS: Final = 256
"""Longest list of layers or weights that is read. No model has more layers."""


def a_number(value: JsonValue) -> JsonValue:
    """Return a number of a request; anything else is a fault of type `float_type`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PydanticKnownError("float_type")
    return value


def a_whole_number(value: JsonValue) -> JsonValue:
    """Return a whole number of a request; anything else is a fault of type `int_type`."""
    # JSON has one type of numbers: 1.0 is the whole number 1.
    if isinstance(value, bool) or not isinstance(value, int | float) or value % 1:
        raise PydanticKnownError("int_type")
    return int(value)  # 1e300 as well, whose fault is then that it is too large


ALLOWED: Final = "allowed"
"""The type of a fault whose message says what is allowed; it follows the place in the body."""

NAME, NUMBER, LIST = "<name>", "<number>", "<list>"
TAGS: Final = {str: NAME, int: NUMBER, float: NUMBER, list: LIST}
"""The tags of the branches of a union by the type of their values. Places in a body leave them
out."""


def one_of(
    expected: str,
    names: Collection[str] | None = None,
    tag: Callable[[Any], str | None] = lambda value: TAGS.get(type(value)),
) -> Discriminator:
    """Let a union be read as the branch with the tag of the value, whose faults alone are listed.

    `expected` is what is allowed where no branch has that tag, or where a string is none of
    `names`. `tag` gives other tags than `TAGS`.
    """

    def found(value: Any) -> str | None:
        is_other = names is not None and isinstance(value, str) and value not in names
        return None if is_other else tag(value)

    return Discriminator(
        found, custom_error_type=ALLOWED, custom_error_message=f"must be {expected}"
    )


def without_default(schema: dict[str, Any]) -> None:
    """Take the default out of the schema of a field."""
    schema.pop("default", None)


def optional(default: Any, description: str, **rules: Any) -> Any:
    """Return a field that may be left out; its schema has no `default`."""
    return Field(default, description=description, json_schema_extra=without_default, **rules)


def _as_json(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object that can be written as JSON again; refuse NaN and infinite numbers."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise PydanticCustomError(ALLOWED, "must have finite numbers alone") from None
    return value


Fit = Annotated[dict[str, Any], AfterValidator(_as_json)]
Number = Annotated[
    FiniteFloat, Strict(), Field(ge=-MAX_FLOAT32, le=MAX_FLOAT32), BeforeValidator(a_number)
]
Gamma = Annotated[
    FiniteFloat, Strict(), Field(ge=-MAX_GAMMA, le=MAX_GAMMA), BeforeValidator(a_number)
]
ModelName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]
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


TASK_EXAMPLE: Final[dict[str, Any]] = {
    "weights": [0.5, -1.0, 2.0],
    "gamma": 1.5,
    "layer_norm": False,
    "description": "named entities",
}


class TaskBody(Mix):
    """A task to register; its name is the one in the path."""

    model_config = ConfigDict(json_schema_extra={"examples": [TASK_EXAMPLE]})

    name: TaskName = optional(None, "May be left out; if given, the same as in the path.")
    model: ModelName = optional(None, "The model that the task is for. Default: the first one.")
    revision: str = optional(
        None, "The revision of its weights; another one is refused.", max_length=64
    )
    description: str = optional(
        "", "For people. Default: empty.", max_length=MAX_DESCRIPTION_CHARACTERS
    )
    fit: Fit = optional(
        None, "What the weights were learned from, as `elmo fit` says it; kept in the task's file."
    )
