"""Bodies of POST /neighbours."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, Tag

from elmo_model.uses.index import MAX_NEIGHBOURS, UsesIndex
from elmo_serve.errors import FieldError, InvalidRequest
from elmo_serve.http.limits import RequestLimits
from elmo_serve.http.schemas.embed import (
    TOKENIZER_TEXT,
    InputRequest,
    Int64,
    Items,
    LayerNumber,
    Member,
    Text,
    Tokenizer,
    Tokens,
    Usage,
    is_text,
)
from elmo_serve.mix import Mix, TaskName
from elmo_serve.validation import (
    NAME,
    NUMBER,
    ModelName,
    a_whole_number,
    among,
    one_of,
    optional,
)

DEFAULT_COUNT: Final = 10

Layer = Annotated[
    Annotated[LayerNumber, Tag(NUMBER)] | Annotated[Literal["top", "average"], Tag(NAME)],
    one_of("'top', 'average' or the number of a layer", among("top", "average")),
]
Count = Annotated[int, Field(ge=1, le=MAX_NEIGHBOURS), BeforeValidator(a_whole_number)]
Place = Annotated[int, Field(ge=0), BeforeValidator(a_whole_number)]


class NeighboursRequest(InputRequest):
    """A token in a sentence. At most one of `layers`, `task` and `mix`."""

    text: Text | None = optional(None, "The sentence, which `tokenizer` splits into tokens.")
    tokens: Tokens | None = optional(
        None, "The sentence as tokens. Either `text` or `tokens` is required."
    )
    tokenizer: Tokenizer | None = optional(None, TOKENIZER_TEXT)
    token: Place = Field(description="The number of the token in the sentence, counted from 0.")
    layers: Layer | None = optional(
        None,
        "The layer that is compared: its number, 0 is the token layer; or `top`, or `average`, "
        "the mean of all layers. Default: `top`.",
    )
    task: TaskName | None = optional(None, "A registered task, whose mix is compared.")
    mix: Mix | None = optional(
        None, "A scalar mix of the layers to compare. `gamma` changes no cosine and is ignored."
    )
    k: Count | None = optional(
        None,
        f"How many neighbours are returned at most. Default: {DEFAULT_COUNT}.",
    )
    model: ModelName | None = optional(None, "A model of the server. Default: the first one.")

    def input_items(self) -> tuple[Member, Items]:
        """Return the one sentence."""
        if is_text(self, self.text, "tokens"):
            return Member("text", is_one=True), [self.text or ""]
        if not self.tokens:
            raise InvalidRequest.of(FieldError("/tokens", "must not be empty"))
        return Member("tokens", is_one=True), [self.tokens]

    @classmethod
    def check_counts(cls, body: Mapping[str, Any], limits: RequestLimits) -> None:
        """Raise TooLarge for a sentence of too many tokens."""
        if isinstance(tokens := body.get("tokens"), list) and len(tokens) > limits.sentence_tokens:
            raise limits.too_long(0, len(tokens), "/tokens")


class IndexedUse(BaseModel):
    """A use of a word in the indexed text."""

    sentence: list[str] = Field(description="The tokens of its sentence.")
    token: int = Field(description="The number of the token in the sentence.")
    line: Int64 | None = Field(
        description="The line of the sentence in the text, from 1; null where the index has none."
    )


class Neighbour(IndexedUse):
    """A use that is near to the token."""

    cosine: float = Field(description="The cosine of the centred vectors.")


class StaticNeighbour(BaseModel):
    """A word that is near without a sentence."""

    word: str
    cosine: float = Field(description="The cosine of the centred token layers.")


class IndexedText(BaseModel):
    """The text that was searched."""

    text: str = Field(description="Its name; `uses` is the text that comes with the program.")
    tokens: Int64
    sentences: Int64

    @classmethod
    def of(cls, index: UsesIndex) -> Self:
        """Describe the text of an index."""
        info = index.info
        return cls(text=info.text, tokens=info.tokens, sentences=info.sentences)


class NeighboursResponse(BaseModel):
    """The nearest uses of a token, and the nearest words without a sentence."""

    model: str
    revision: str = Field(description="The revision of the model and of the index.")
    tokens: list[str] = Field(description="The tokens of the sentence that was sent.")
    token: int
    neighbours: list[Neighbour] = Field(
        description="At most `k` uses, the nearest first. Uses in a sentence that equals the one "
        "that was sent are left out, and of equal sentences only the first counts."
    )
    static: list[StaticNeighbour] = Field(
        description="At most `k` words of the text, the nearest first, by the token layer, which "
        "sees no sentence. The word itself is left out."
    )
    index: IndexedText
    usage: Usage
