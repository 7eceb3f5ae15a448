"""Bodies of /v1, /tei and /similarity, as pydantic models and as the OpenAPI document shows them.

`text_bodies` checks requests; these schemas describe them.
"""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict

from elmo_serve.http.schemas.text import Tokenizer
from elmo_serve.http.schemas.vectors import Vector
from elmo_serve.task_schema import ModelName, optional

A_TOKEN: Final = r"[^\s\x00-\x1f\x7f-\x9f]"

Text = Annotated[str, Field(min_length=1, pattern=A_TOKEN)]
"""A text with at least one token: control characters count as white space."""

Tokens = Annotated[list[str], Field(min_length=1)]
Dimensions = Annotated[int, Strict(), Field(ge=1)]

DIMENSIONS: Final = "The width of the model, `dimension` in `GET /info`; another one is refused."


class EmbeddingsRequest(BaseModel):
    """A request of OpenAI's embeddings API. Other fields are ignored."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model": "english", "input": ["The river bank."]}]}
    )

    input: (
        Text
        | Annotated[list[Text], Field(min_length=1)]
        | Annotated[list[Tokens], Field(min_length=1)]
    ) = Field(description="A text, a list of texts, or a list of lists of token strings.")
    model: ModelName | None = optional(
        None,
        "A model of the server, or a model and one of its tasks: `english@task`. Default: the "
        "first model and the mean of its layers.",
    )
    encoding_format: Literal["float", "base64"] | None = optional(
        "float", "`base64`: little-endian float32. Default: `float`."
    )
    dimensions: Dimensions | None = optional(None, DIMENSIONS)


class EmbeddingItem(BaseModel):
    """One vector."""

    object: Literal["embedding"]
    index: int
    embedding: Vector | str = Field(description="A string for `base64`.")


class EmbeddingsUsage(BaseModel):
    """The size of the request in tokens of ELMo: words."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(BaseModel):
    """One unit vector a text, in the order of the texts."""

    object: Literal["list"]
    data: list[EmbeddingItem]
    model: str
    usage: EmbeddingsUsage


class ModelCard(BaseModel):
    """A name for `model` in a request."""

    id: str
    object: Literal["model"]
    created: int = Field(
        description="When the server started, in seconds since 1970.",
        json_schema_extra={"format": "int64"},
    )
    owned_by: str


class ModelList(BaseModel):
    """The models of the server, each followed by `model@task` for its tasks."""

    object: Literal["list"]
    data: list[ModelCard]


class OpenAIError(BaseModel):
    """An error of OpenAI's API."""

    message: str
    type: str
    param: str | None = Field(description="The field at fault.")
    code: str | None


class OpenAIErrorResponse(BaseModel):
    """The body of an error below /v1/."""

    error: OpenAIError


class TeiErrorResponse(BaseModel):
    """The body of an error below /tei/."""

    error: str
    error_type: Literal["Validation", "Overloaded", "Unhealthy", "Backend"]


class _TeiTexts(BaseModel):
    inputs: Text | Annotated[list[Text], Field(min_length=1)] = Field(
        description="A text or a list of texts."
    )
    truncate: bool | None = optional(
        False, "Cut a text with too many tokens; otherwise it is refused. Default: false."
    )
    truncation_direction: Literal["Right", "Left"] | None = optional(
        "Right", "The end that is cut. Default: `Right`."
    )
    dimensions: Dimensions | None = optional(None, DIMENSIONS)


class TeiEmbedRequest(_TeiTexts):
    """A request of text-embeddings-inference. Other fields are ignored."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"inputs": ["The river bank."]}]})

    normalize: bool | None = optional(True, "Scale each vector to length 1. Default: true.")


class TeiEmbedAllRequest(_TeiTexts):
    """A request for the vectors of all tokens. Other fields are ignored."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"inputs": "The river bank."}]})


class _Place(BaseModel):
    model_config = ConfigDict(extra="forbid")

    token: Annotated[int, Field(ge=0)] | None = optional(
        None, "The number of a token; null or left out: the mean over all tokens."
    )


class TextPlace(_Place):
    """A text, or a token of it."""

    text: Text


class TokensPlace(_Place):
    """A tokenised sentence, or a token of it."""

    tokens: Tokens


class SimilarityRequest(BaseModel):
    """Pairs to compare: whole sentences by the mean of their tokens, or single tokens."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "pairs": [
                        [
                            {"text": "The bank of the river.", "token": 1},
                            {"text": "The bank lends money.", "token": 1},
                        ]
                    ],
                    "centred": True,
                }
            ]
        },
    )

    pairs: list[Annotated[list[TextPlace | TokensPlace], Field(min_length=2, max_length=2)]]
    model: ModelName = optional(None, "A model of the server. Default: the first one.")
    tokenizer: Tokenizer = optional(
        None, "How texts are split. Default: as the training text of the model."
    )
    centred: bool = optional(
        False, "Subtract the mean of each layer (`/info/centre`) first. Default: false."
    )


class SimilarityUsage(BaseModel):
    """The size of the request."""

    sentences: int
    tokens: int


class SimilarityResponse(BaseModel):
    """The cosine of each pair, by layer."""

    model: str
    cosine: dict[str, list[float]] = Field(
        description="One number a pair for each layer, `0` to `L`, and for `average`, their mean. "
        "It is 0 where a vector is zero."
    )
    usage: SimilarityUsage
