"""Text, tokens, offsets and vectors in bodies of requests and responses, as pydantic models."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, WithJsonSchema

from elmo_serve.schema import ModelName, optional

Vector = list[float]
# Generated clients read an integer without a format into 32 bits.
Int64 = Annotated[int, Field(json_schema_extra={"format": "int64"})]

# Text and tokens that have no vector are refused where the text is split.
Text = Annotated[
    str,
    WithJsonSchema({"type": "string", "minLength": 1, "pattern": r"[^\s\x00-\x1f\x7f-\x9f]"}),
]
"""A text with at least one token: control characters count as white space."""

# FailFast stops at the first fault: a body with a million faults is refused as fast as with one.
Tokens = Annotated[
    list[str],
    Field(fail_fast=True),  # `FailFast` cannot be hashed, as parts of a union must be
    WithJsonSchema({"type": "array", "items": {"type": "string"}, "minItems": 1}),
]
Texts = Annotated[list[str], FailFast()]
Tokenizer = Literal["ptb", "moses", "whitespace", "characters"]

TOKENIZER_TEXT: Final = (
    "Penn Treebank, Moses, white space, or one token a character in upper case. Default: the "
    "tokenizer of the model, see `/info`."
)


class TokenizeRequest(BaseModel):
    """Texts to split into tokens."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"text": ["The bank can't lend."], "tokenizer": "ptb"}]},
    )

    text: Texts = Field(description="One string a sentence.")
    tokenizer: Tokenizer = optional(None, TOKENIZER_TEXT)
    model: ModelName = optional(None, "A model of the server. Default: the first one.")


class TokenWarning(BaseModel):
    """One token that the model reads otherwise than it was sent."""

    pointer: str = Field(description="JSON pointer (RFC 6901) into the body of the request.")
    detail: str


Offset = Annotated[list[int], Field(min_length=2, max_length=2)]

TOKENS_TEXT: Final = "The tokens of each text."
OFFSETS_TEXT: Final = (
    "Start and end of each token in its text, in code points: `text[start:end]` is the token."
)
WARNINGS_TEXT: Final = (
    "Tokens that are longer than the model reads or have white space inside, at most 20; the "
    "header X-Warnings counts all. Left out where there are none."
)


class TokenizeResponse(BaseModel):
    """Texts as tokens."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "tokenizer": "ptb",
                    "tokens": [["The", "bank", "ca", "n't", "lend", "."]],
                    "offsets": [[[0, 3], [4, 8], [9, 11], [11, 14], [15, 19], [19, 20]]],
                }
            ]
        }
    )

    tokenizer: str
    tokens: list[list[str]] = Field(description=TOKENS_TEXT)
    offsets: list[list[Offset]] = Field(description=OFFSETS_TEXT)
    warnings: list[TokenWarning] = optional((), WARNINGS_TEXT)
