"""Bodies of requests and answers, as the OpenAPI document shows them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    FiniteFloat,
    JsonValue,
    Strict,
)
from pydantic_core import PydanticKnownError

from elmo_serve.output import Dtype, Pooling

TASK_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
TASK_NAME_RULE = "1 to 64 of A-Z a-z 0-9 . _ - and start with a letter or a digit"
"""The rule for people; it follows "must be"."""

MAX_DESCRIPTION_CHARACTERS = 1_000

MOST_LAYERS = 256
"""No model has more; a longer list is refused before it is read."""


def _a_number(value: JsonValue) -> JsonValue:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PydanticKnownError("float_type")
    return value


def _a_whole_number(value: JsonValue) -> JsonValue:
    # 1.0 is one: JSON does not tell it from 1.
    if isinstance(value, bool) or not isinstance(value, int | float) or value % 1:
        raise PydanticKnownError("int_type")
    return value


def _without_default(schema: dict[str, Any]) -> None:
    del schema["default"]


_LARGEST = float(np.finfo(np.float32).max)
Number = Annotated[
    FiniteFloat, Strict(), Field(ge=-_LARGEST, le=_LARGEST), BeforeValidator(_a_number)
]
# A scale that no training gives, and with which the vectors still fit into a float16.
Gamma = Annotated[FiniteFloat, Strict(), Field(ge=-1000, le=1000), BeforeValidator(_a_number)]
LayerNumber = Annotated[int, Field(ge=0), BeforeValidator(_a_whole_number)]
TaskName = Annotated[str, Field(pattern=f"^{TASK_NAME}$")]
Layers = Annotated[list[LayerNumber], Field(min_length=1, max_length=MOST_LAYERS)]
Weights = Annotated[list[Number], Field(min_length=1, max_length=MOST_LAYERS)]
# Reading stops at the first fault: a body of a million is refused as fast as one with one.
Sentence = Annotated[list[str], FailFast()]
Sentences = Annotated[list[Sentence], FailFast()]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Mix(_Body):
    """A scalar mix: gamma x sum_j softmax(weights)_j h_j (Peters et al. 2018, equation 1)."""

    weights: Weights = Field(
        description="One raw scalar a layer, before the softmax: AllenNLP's `scalar_parameters`."
    )
    gamma: Gamma = Field(1.0, description="Scale of the mixture.")
    layer_norm: Annotated[bool, Strict()] = Field(
        False,
        description="Normalise each layer first, by its mean and variance over the sentence.",
    )


_ONE_OF = ("layers", "task", "mix")
_EXCLUSIVE: dict[str, Any] = {
    "not": {
        "anyOf": [{"required": [a, b]} for i, a in enumerate(_ONE_OF) for b in _ONE_OF[i + 1 :]]
    }
}


class EmbedRequest(BaseModel):
    """Tokenised sentences, and what is wanted of them: at most one of layers, task and mix."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra=_EXCLUSIVE
        | {
            "examples": [
                {"sentences": [["The", "bank", "of", "the", "river", "."]], "layers": "top"}
            ]
        },
    )

    sentences: Sentences = Field(
        description="One list of tokens a sentence. An empty sentence and an empty token are "
        "legal and keep their place."
    )
    layers: Literal["all", "top", "average"] | Layers = Field(
        "all",
        description="biLM layers: 0 is the token layer, 1 to L are the biLSTM layers. "
        "`average` is their plain mean.",
    )
    task: TaskName = Field(
        default=None,  # type: ignore[assignment]  # absent is told by model_fields_set
        description="A registered task, whose mix is used.",
        json_schema_extra=_without_default,
    )
    mix: Mix = Field(
        default=None,  # type: ignore[assignment]
        description="A scalar mix of the layers, given inline.",
        json_schema_extra=_without_default,
    )
    pooling: Pooling = Field(
        "none", description="Over the tokens of a sentence; an empty sentence pools to zeros."
    )
    dtype: Dtype = Field("float32", description="Of the vectors on the wire.")


class Usage(BaseModel):
    """What the request cost."""

    sentences: int
    tokens: int


Vector = list[float]


class EmbedAnswer(BaseModel):
    """ELMo vectors, in the order of the sentences, never padded."""

    model: str
    dimension: int = Field(description="Width of a vector: 2P, forward half first.")
    layers: list[int] | None = Field(description="The layers that were asked for; null for a mix.")
    embeddings: list[Vector | list[Vector] | list[list[Vector]]] = Field(
        description="A sentence of n tokens: (layers, n, 2P) for `all` or a list of layers, "
        "(n, 2P) for `top`, `average`, `task` and `mix`; pooling removes the n."
    )
    usage: Usage


class TaskBody(Mix):
    """A task to register; the name in the path is its name."""

    name: TaskName = Field(
        default=None,  # type: ignore[assignment]
        description="May be left out; if given, the same as in the path.",
        json_schema_extra=_without_default,
    )
    description: str = Field("", max_length=MAX_DESCRIPTION_CHARACTERS, description="For people.")


class TaskAnswer(BaseModel):
    """A registered task."""

    name: str
    weights: list[float]
    gamma: float
    layer_norm: bool
    description: str


class TaskList(BaseModel):
    """All registered tasks, by name."""

    tasks: list[TaskAnswer]


class LimitsAnswer(BaseModel):
    """Every limit in force."""

    max_batch_tokens: int
    max_queue_tokens: int
    max_client_tokens: int | None
    max_request_sentences: int
    max_sentence_tokens: int
    max_body_bytes: int
    max_answer_bytes: int
    max_connections: int
    request_timeout_seconds: float
    client_timeout_seconds: float
    drain_timeout_seconds: float


class InfoAnswer(BaseModel):
    """The model and the server."""

    model: str
    revision: str = Field(description="Short SHA-256 of the weights.")
    format: str
    layers: int = Field(description="L + 1: the token layer and the biLSTM layers.")
    dimension: int = Field(description="Width of a vector: 2P.")
    parameters: int
    precision: str
    devices: list[str] = Field(description="One entry a worker.")
    limits: LimitsAnswer
    media_types: list[str] = Field(description="What `POST /embed` can answer.")
    version: str


class Health(BaseModel):
    """A probe's answer."""

    status: str


class FieldProblem(BaseModel):
    """One fault of a request body."""

    pointer: str = Field(description="JSON pointer (RFC 6901) into the body.")
    detail: str


class Problem(BaseModel):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
    instance: str = Field(description="The request id.")
    errors: list[FieldProblem] | None = None
