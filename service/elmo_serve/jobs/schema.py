"""The body of `POST /tasks/{name}/fit` as pydantic models."""

from typing import Annotated, Any, Final, Literal

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
from pydantic_core import PydanticCustomError

from elmo_serve.tasks.schema import ALLOWED, a_number, a_whole_number, optional

MOST_SEEDS: Final = 10
"""Largest number of seeds: the time of a fit grows with it."""

MAX_LABEL_CHARACTERS: Final = 256

_EXAMPLE: Final[dict[str, Any]] = {
    "kind": "sentence",
    "examples": [
        {"tokens": ["What", "a", "fine", "day"], "label": "good"},
        {"tokens": ["It", "rains"], "label": "bad"},
        {"tokens": ["A", "fine", "rain"], "label": "good", "test": True},
    ],
    "seeds": 3,
}


def _label(value: JsonValue) -> JsonValue:
    """Return a whole number, as classes often are, as text; refuse what is neither."""
    if type(value) not in (int, str):
        raise PydanticCustomError(ALLOWED, "must be a string or an integer")
    return str(value)


Tokens = Annotated[list[str], FailFast()]
Label = Annotated[
    str, Field(min_length=1, max_length=MAX_LABEL_CHARACTERS), BeforeValidator(_label)
]
Labels = Annotated[list[Label], FailFast()]
TokenNumber = Annotated[int, Field(ge=0), BeforeValidator(a_whole_number)]
Seeds = Annotated[int, Field(ge=1, le=MOST_SEEDS), BeforeValidator(a_whole_number)]
Validation = Annotated[FiniteFloat, Strict(), Field(gt=0, lt=1), BeforeValidator(a_number)]
Penalty = Annotated[FiniteFloat, Strict(), Field(ge=0), BeforeValidator(a_number)]
Dropout = Annotated[FiniteFloat, Strict(), Field(ge=0, lt=1), BeforeValidator(a_number)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FitSide(_Body):
    """One side of a pair: a sentence, or one token of it."""

    tokens: Tokens = optional(None, "The tokens of the sentence; in place of `text`.")
    text: str = optional(None, "The sentence as text; in place of `tokens`.")
    token: TokenNumber = optional(
        None, "The token to compare, from 0. Default: the mean over the sentence."
    )


# The number of sides is checked by `bodies`, whose message is about sides.
Pair = Annotated[list[FitSide], FailFast()]


class FitExample(FitSide):
    """A labelled example.

    Of the kind `token`: a sentence with `labels`, or with `token` and `label`. Of the kind
    `sentence`: a sentence with `label`. Of the kind `pair`: `pair` with `label`.
    """

    token: TokenNumber = optional(None, "For `token`: the token that `label` belongs to, from 0.")
    labels: Labels = optional(None, "For `token`: one label a token, each as `label`.")
    label: Label = optional(
        None, "The label of the token, the sentence or the pair; an integer is read as its text."
    )
    pair: Pair = optional(None, "For `pair`: the two sides.")
    test: Annotated[bool, Strict()] = optional(
        False, "Score the fit on this example and do not learn from it. Default: false."
    )


FitExamples = Annotated[list[FitExample], Field(min_length=1), FailFast()]


class FitOptionsBody(_Body):
    """The options of a fit: the first line of an NDJSON body."""

    kind: Literal["token", "sentence", "pair"] = Field(
        description="What has a label: each token, each sentence, or each pair of sentences."
    )
    tokenizer: str = optional(
        None, "Tokenizer of `text`: `ptb`, `moses`, `whitespace` or `characters`. Default: that of "
        "the model."
    )  # fmt: skip
    validation: Validation = optional(
        0.1, "Part of the sentences that decides when to stop. Default: 0.1."
    )
    seeds: Seeds = optional(3, "Fits from different seeds; the best one is kept. Default: 3.")
    layer_norm: Annotated[bool, Strict()] = optional(
        False, "Normalise each layer over its sentence first. Default: false."
    )
    l2_weights: Penalty = optional(0.001, "Penalty on the raw weights. Default: 0.001.")
    dropout: Dropout = optional(0.0, "Dropout on the mixed vectors. Default: 0.")


class FitBody(FitOptionsBody):
    """Labelled examples, and how to learn from them."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    examples: FitExamples = Field(description="At least two different labels among them.")
