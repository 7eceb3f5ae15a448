"""Bodies of /v1: they are validated by these models, and described."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    Tag,
)
from pydantic_core import PydanticCustomError

from elmo_serve.http.schemas.embed import (
    InputRequest,
    Items,
    Member,
    Text,
    Tokens,
    Vector,
)
from elmo_serve.validation import (
    FAULT,
    LIST,
    NAME,
    ModelName,
    a_whole_number,
    one_of,
    optional,
)

TOKEN_IDS: Final = (
    "holds token ids, and this model has none: its tokens are strings. Send texts, or lists of "
    "token strings. LangChain sends ids unless `check_embedding_ctx_length=False`"
)


def _texts(value: JsonValue) -> JsonValue:
    """Refuse an empty list, and token ids, which clients of OpenAI may send."""
    if isinstance(value, list) and not value:
        raise PydanticCustomError(FAULT, "should be a text or a list of texts")
    return _no_ids(value)


def _no_ids(value: JsonValue) -> JsonValue:
    if isinstance(value, list) and value and isinstance(value[0], int):
        raise PydanticCustomError(FAULT, TOKEN_IDS)
    return value


def _first_item(value: JsonValue) -> str | None:
    """Return the tag of a list by its first item; all other items must be of the same type."""
    if not isinstance(value, list):
        return None
    return LIST if isinstance(value[0], list) else NAME


_Strings = Annotated[list[Text], Field(fail_fast=True), Tag(NAME)]
_Lists = Annotated[
    list[Annotated[Tokens, BeforeValidator(_no_ids)]], Field(fail_fast=True), Tag(LIST)
]
_List = Annotated[
    _Strings | _Lists, one_of("a list of texts or of lists of tokens", tag=_first_item)
]
_Texts = Annotated[
    Annotated[Text, Tag(NAME)] | Annotated[_List, BeforeValidator(_texts), Tag(LIST)],
    one_of("a text or a list of texts"),
]
Dimensions = Annotated[int, BeforeValidator(a_whole_number)]
"""Compared with the width of the model, which an error names."""

DIMENSIONS: Final = "The width of the model, `dimension` in `GET /info`; another one is refused."

_TEXTS_TEXT: Final = "A text, a list of texts, or a list of lists of token strings."


class EmbeddingsRequest(InputRequest):
    """A request of OpenAI's embeddings API. Other fields are ignored."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={"examples": [{"model": "english", "input": ["The river bank."]}]},
    )

    counted: ClassVar[Mapping[str, str]] = {"input": "sentences"}

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

    def input_items(self) -> tuple[Member, Items]:
        """Return the texts, or the lists of tokens."""
        if isinstance(self.input, str):
            return Member("input", is_one=True), [self.input]
        return Member("input"), self.input


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
