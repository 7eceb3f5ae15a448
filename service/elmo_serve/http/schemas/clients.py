"""Bodies of /v1 and /similarity: they are validated by these models, and described."""

from functools import partial
from typing import Annotated, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    JsonValue,
    Strict,
    Tag,
    ValidationInfo,
)
from pydantic_core import PydanticCustomError

from elmo_serve.http.schemas.embed import (
    WARNINGS_TEXT,
    Text,
    Tokenizer,
    Tokens,
    TokenWarning,
    Usage,
    Vector,
)
from elmo_serve.schema import ALLOWED, LIST, NAME, ModelName, a_whole_number, one_of, optional

TOKEN_IDS: Final = (
    "holds token ids, and this model has none: its tokens are strings. Send texts, or lists of "
    "token strings. LangChain sends ids unless `check_embedding_ctx_length=False`"
)


def _checked_count(value: JsonValue, info: ValidationInfo, each: int = 1) -> JsonValue:
    """Refuse too long a list before a Python function is called for each of its items.

    The context of a body is its `calls.parse.RequestLimits`.
    """
    if isinstance(value, list) and info.context is not None:
        info.context.check_count(each * len(value))
    return value


def _texts(value: JsonValue, info: ValidationInfo) -> JsonValue:
    """Refuse an empty list, and lists of numbers, which clients of OpenAI may send."""
    if isinstance(value, list) and not value:
        raise PydanticCustomError(ALLOWED, "must be a text or a list of texts")
    return _checked_count(_no_ids(value), info)


def _no_ids(value: JsonValue) -> JsonValue:
    if isinstance(value, list) and value and isinstance(value[0], int):
        raise PydanticCustomError(ALLOWED, TOKEN_IDS)
    return value


_Item = Annotated[
    Annotated[Text, Tag(NAME)] | Annotated[Tokens, BeforeValidator(_no_ids), Tag(LIST)],
    one_of("a text or a list of tokens"),
]
_Texts = Annotated[
    Annotated[Text, Tag(NAME)]
    | Annotated[list[_Item], Field(fail_fast=True), BeforeValidator(_texts), Tag(LIST)],
    one_of("a text or a list of texts"),
]
Dimensions = Annotated[int, BeforeValidator(a_whole_number)]
"""Compared with the width of the model, which an error names."""

DIMENSIONS: Final = "The width of the model, `dimension` in `GET /info`; another one is refused."

_TEXTS_TEXT: Final = "A text, a list of texts, or a list of lists of token strings."


class EmbeddingsRequest(BaseModel):
    """A request of OpenAI's embeddings API. Other fields are ignored."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model": "english", "input": ["The river bank."]}]}
    )

    input: _Texts = Field(description=_TEXTS_TEXT)
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


Flag = Annotated[bool, Strict()]


def _place(value: JsonValue) -> str | None:
    """Return the tag of a place, which has either a text or tokens."""
    if not isinstance(value, dict) or ("text" in value) == ("tokens" in value):
        return None
    return NAME if "text" in value else LIST


def _pair(value: JsonValue) -> JsonValue:
    if not isinstance(value, list) or len(value) != 2:
        raise PydanticCustomError(ALLOWED, "must be a list of two places")
    return [_without_absent(place) for place in value]


def _without_absent(place: JsonValue) -> JsonValue:
    """Return a place without members that are null, and without an empty list beside a text."""
    if not isinstance(place, dict):
        return place
    given: dict[str, JsonValue] = {name: v for name, v in place.items() if v is not None}
    if "text" in given and given.get("tokens") == []:
        del given["tokens"]
    return given


class _Place(BaseModel):
    model_config = ConfigDict(extra="forbid")

    token: Annotated[int, Field(ge=0), BeforeValidator(a_whole_number)] | None = optional(
        None, "The number of a token; null or left out: the mean over all tokens."
    )


class TextPlace(_Place):
    """A text, or a token of it."""

    text: Text


class TokensPlace(_Place):
    """A tokenised sentence, or a token of it."""

    tokens: Tokens


Place = Annotated[
    Annotated[TextPlace, Tag(NAME)] | Annotated[TokensPlace, Tag(LIST)],
    one_of("an object with text or tokens, not both, and token if one is compared", tag=_place),
]
Pair = Annotated[list[Place], Field(min_length=2, max_length=2), FailFast(), BeforeValidator(_pair)]


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

    pairs: Annotated[list[Pair], FailFast(), BeforeValidator(partial(_checked_count, each=2))]
    model: ModelName = optional(None, "A model of the server. Default: the first one.")
    tokenizer: Tokenizer = optional(
        None, "How texts are split. Default: as the training text of the model."
    )
    centred: Flag = optional(
        False, "Subtract the mean of each layer (`/info/centre`) first. Default: false."
    )


class SimilarityResponse(BaseModel):
    """The cosine of each pair, by layer."""

    model: str
    cosine: dict[str, list[float]] = Field(
        description="One number a pair for each layer, `0` to `L`, and for `average`, their mean. "
        "It is 0 where a vector is zero."
    )
    usage: Usage
    warnings: list[TokenWarning] = optional((), WARNINGS_TEXT)
