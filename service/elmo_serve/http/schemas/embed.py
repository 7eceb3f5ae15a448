"""The schemas of `POST /embed` and `POST /tokenize`, and of the parts that others share."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    Tag,
)

from elmo_serve.errors import FieldError, InvalidRequest, pointer
from elmo_serve.http.limits import RequestLimits
from elmo_serve.mix import MOST_LAYERS, Mix, TaskName
from elmo_serve.selection import NAMED, Dtype, LayerName, Pooling
from elmo_serve.validation import (
    LIST,
    NAME,
    NUMBER,
    ModelName,
    a_whole_number,
    among,
    one_of,
    optional,
)

Vector = list[float]
# Generated clients read an integer without a format into 32 bits.
Int64 = Annotated[int, Field(json_schema_extra={"format": "int64"})]

# Text and tokens that have no vector are refused where the text is split.
Text = str
"""A text with at least one token: control characters count as white space."""

# A list stops at its first fault: a body with a million faults is refused as fast as with one.
# `FailFast` would do the same, but cannot be hashed, as parts of a union must be.
Tokens = Annotated[list[str], Field(fail_fast=True)]
Texts = Annotated[list[str], Field(fail_fast=True)]
Tokenizer = Literal["ptb", "moses", "whitespace", "characters"]

TOKENIZER_TEXT: Final = (
    "Penn Treebank, Moses, white space, or one token a character in upper case. Default: the "
    "tokenizer of the model, see `/info`."
)


@dataclass(frozen=True, slots=True)
class Member:
    """The member of a body that has its sentences: they are its items, or with `is_one` its value.

    `name` is its name.
    """

    name: str
    is_one: bool = False

    def pointer(self, index: int) -> str:
        """Return the JSON pointer of a sentence in the body."""
        return pointer(self.name) if self.is_one else pointer(self.name, index)


Items = Sequence[str | list[str]]
"""The sentences of a body: texts to split, or lists of tokens, never both."""


class InputRequest(BaseModel, ABC):
    """A body with sentences or texts, as `http.body` reads it.

    `needs_vectors` tells that a worker computes something for each sentence. `counted` are the
    members with a list of at most ELMO_MAX_REQUEST_SENTENCES items, each with the word for them in
    errors. A body with fewer commas than `most_uncounted` is validated without counting them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    needs_vectors: ClassVar[bool] = True
    counted: ClassVar[Mapping[str, str]] = {"sentences": "sentences", "text": "texts"}
    most_uncounted: ClassVar[int] = sys.maxsize

    @abstractmethod
    def input_items(self) -> tuple[Member, Items]:
        """Return the sentences of the body, and the member that has them.

        Raises InvalidRequest for fields that do not go together.
        """

    @classmethod
    def check_counts(cls, body: Mapping[str, Any], limits: RequestLimits) -> None:
        """Raise TooLarge or InvalidRequest for too many items in a body that is not validated."""
        for member, unit in cls.counted.items():
            if isinstance(items := body.get(member), list):
                limits.check_count(len(items), unit)


def is_text(request: InputRequest, text: str | list[str] | None, tokenised: str) -> bool:
    """Tell whether a request has `text`, and not the field `tokenised`. Raises InvalidRequest."""
    given = {name for name in type(request).model_fields if getattr(request, name) is not None}
    if given.issuperset((tokenised, "text")):  # an empty list beside the other counts as left out
        if not text:
            given.discard("text")
        elif not getattr(request, tokenised):
            given.discard(tokenised)
    exclusive = [name for name in ("layers", "task", "mix") if name in given]
    if len(exclusive) > 1:
        raise InvalidRequest(
            f"At most one of layers, task and mix is allowed; found {' and '.join(exclusive)}.",
            errors=[FieldError(pointer(name), "excludes the others") for name in exclusive],
        )
    has_text = "text" in given
    if has_text == (tokenised in given):
        found = "both" if has_text else "neither"
        detail = f"exactly one of `{tokenised}` and `text` is required; found {found}"
        raise InvalidRequest.of(FieldError(pointer(tokenised), detail))
    if not has_text and "tokenizer" in given:
        fault = FieldError("/tokenizer", f"splits `text`; `{tokenised}` are split already")
        raise InvalidRequest.of(fault)
    return has_text


class TokenizeRequest(InputRequest):
    """Texts to split into tokens."""

    needs_vectors: ClassVar[bool] = False

    text: Texts = Field(description="One string a sentence.")
    tokenizer: Tokenizer | None = optional(None, TOKENIZER_TEXT)
    model: ModelName | None = optional(None, "A model of the server. Default: the first one.")

    def input_items(self) -> tuple[Member, Items]:
        """Return the texts."""
        return Member("text"), self.text


Offset = Annotated[list[int], Field(min_length=2, max_length=2)]

TOKENS_TEXT: Final = "The tokens of each text."
OFFSETS_TEXT: Final = (
    "Start and end of each token in its text, in code points: `text[start:end]` is the token."
)


class TokenizeResponse(BaseModel):
    """Texts as tokens."""

    tokenizer: str
    tokens: list[list[str]] = Field(description=TOKENS_TEXT)
    offsets: list[list[Offset]] = Field(description=OFFSETS_TEXT)


_NAMES: Final = ", ".join(map(repr, NAMED))

LayerNumber = Annotated[int, Field(ge=0), BeforeValidator(a_whole_number)]
LayerNumbers = Annotated[list[LayerNumber], Field(min_length=1, max_length=MOST_LAYERS)]
Layers = Annotated[
    Annotated[LayerName, Tag(NAME)]
    | Annotated[LayerNumber, Tag(NUMBER)]
    | Annotated[LayerNumbers, Tag(LIST)],
    one_of(f"{_NAMES}, the number of a layer or a list of numbers", among(*NAMED)),
]
Sentences = Annotated[list[Tokens], Field(fail_fast=True)]

_EMBED_EXAMPLE: Final[dict[str, Any]] = {
    "sentences": [["The", "bank", "of", "the", "river", "."]],
    "layers": "top",
    "pooling": "mean",
}


class SentencesRequest(InputRequest):
    """Tokenised `sentences`, or `text`."""

    sentences: Sentences | None = optional(
        None,
        "One list of tokens a sentence. An empty sentence and an empty token are legal and keep "
        "their place. Either `sentences` or `text` is required.",
    )
    text: Texts | None = optional(
        None, "One string a sentence, which `tokenizer` splits into tokens."
    )
    tokenizer: Tokenizer | None = optional(None, TOKENIZER_TEXT)
    model: ModelName | None = optional(None, "A model of the server. Default: the first one.")

    def input_items(self) -> tuple[Member, Items]:
        """Return the sentences or the texts."""
        if is_text(self, self.text, "sentences"):
            return Member("text"), self.text or ()
        return Member("sentences"), self.sentences or ()


class EmbedRequest(SentencesRequest):
    """Tokenised `sentences`, or `text`, and the vectors to return.

    At most one of `layers`, `task` and `mix`.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_EMBED_EXAMPLE]})

    layers: Layers | None = optional(
        None,
        "Layers of the biLM: 0 is the token layer, 1 to L are the biLSTM layers. A number is one "
        "layer, without an axis of layers; a list of numbers keeps the axis. `average` and "
        "`sum` are their plain mean and sum, `concat` joins all layers of a token to one vector. "
        "Default: `all`.",
    )
    task: TaskName | None = optional(None, "A registered task, whose mix is used.")
    mix: Mix | None = optional(None, "A scalar mix of the layers.")
    pooling: Pooling | None = optional(
        None, "Over the tokens of a sentence; an empty sentence pools to zeros. Default: `none`."
    )
    dtype: Dtype | None = optional(None, "Number format of the vectors. Default: `float32`.")
    normalize: Annotated[bool, Strict()] | None = optional(
        None,
        "Scale every vector to length 1, after pooling; zeros stay zeros. Default: false.",
    )


class Usage(BaseModel):
    """The size of the request."""

    sentences: int
    tokens: int


class EmbedResponse(BaseModel):
    """ELMo vectors, in the order of the sentences, never padded."""

    model: str = Field(description="The name of the model that computed the vectors.")
    dimension: int = Field(
        description="Width of a vector: 2P, forward half first; (L + 1) 2P for `concat`."
    )
    layers: list[int] | None = Field(description="The layers that were asked for; null for a mix.")
    embeddings: list[Vector | list[Vector] | list[list[Vector]]] = Field(
        description="A sentence of n tokens: (layers, n, 2P) for `all` or a list of layers, "
        "(n, 2P) for a number, `top`, `average`, `sum`, `task` and `mix`, (n, (L + 1) 2P) for "
        "`concat`; pooling removes the n."
    )
    usage: Usage
    tokenizer: str = optional("", "The tokenizer, for a request with `text`.")
    tokens: list[list[str]] = optional((), f"{TOKENS_TEXT} For a request with `text`.")
    offsets: list[list[Offset]] = optional((), f"{OFFSETS_TEXT} For a request with `text`.")
