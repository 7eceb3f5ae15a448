"""The schemas of `POST /score` and `POST /substitutes`."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, BeforeValidator, FailFast, Field

from elmo_serve.errors import FieldError, InvalidRequest
from elmo_serve.http.limits import RequestLimits
from elmo_serve.http.schemas.embed import (
    OFFSETS_TEXT,
    TOKENS_TEXT,
    Offset,
    SentencesRequest,
    Usage,
    Vector,
)
from elmo_serve.validation import a_whole_number, optional
from elmo_serve.workers.language_results import Direction

MOST_SUBSTITUTES: Final = 100
DEFAULT_SUBSTITUTES: Final = 10
MOST_POSITIONS: Final = 64
"""Of all sentences of a request. Each is a product with the whole softmax: some seconds of a CPU
together. A larger value lets one small request take the workers for longer."""

_WHOLE = BeforeValidator(a_whole_number)
Positions = Annotated[
    list[Annotated[int, Field(ge=0), _WHOLE]], Field(max_length=MOST_POSITIONS), FailFast()
]


class ScoreRequest(SentencesRequest):
    """Tokenised `sentences`, or `text`, whose tokens are scored."""


class SubstitutesRequest(SentencesRequest):
    """Tokenised `sentences`, or `text`, and the places whose substitutes are returned."""

    counted: ClassVar[Mapping[str, str]] = {
        **SentencesRequest.counted,
        "positions": "lists of positions",
    }
    most_uncounted: ClassVar[int] = MOST_POSITIONS

    positions: Annotated[list[Positions], FailFast()] = Field(
        description="For each sentence a list of numbers of tokens, counted from 0, none twice; at "
        f"most {MOST_POSITIONS} in all."
    )
    k: Annotated[int, Field(ge=1, le=MOST_SUBSTITUTES), _WHOLE] | None = optional(
        None, f"How many words a place. Default: {DEFAULT_SUBSTITUTES}."
    )
    direction: Direction | None = optional(
        None,
        "`forward` predicts from the tokens before, `backward` from those behind, `both` is the "
        "product of their probabilities divided by the share of the word in text, which is "
        "estimated from its rank in the vocabulary, normalised. Default: `both`.",
    )

    @classmethod
    def check_counts(cls, body: Mapping[str, Any], limits: RequestLimits) -> None:
        """Raise as `InputRequest.check_counts`, and for too many positions of all sentences."""
        super().check_counts(body, limits)
        if isinstance(lists := body.get("positions"), list):
            count = sum(len(each) for each in lists if isinstance(each, list))
            if count > MOST_POSITIONS:
                detail = f"should have at most {MOST_POSITIONS} numbers in all, found {count}"
                raise InvalidRequest.of(FieldError("/positions", detail))


class End(BaseModel):
    """The surprisal of the boundary that ends each direction."""

    forward: float
    backward: float


class SentenceScores(BaseModel):
    """The surprisal of each token of a sentence."""

    forward: Vector = Field(description="After the begin boundary and the tokens before it.")
    backward: Vector = Field(description="After the end boundary and the tokens behind it.")
    both: Vector = Field(description="Their mean, which is no normalised probability.")
    unknown: list[bool] = Field(description="Whether the token was scored as `<UNK>`.")
    end: End


class _LanguageResponse(BaseModel):
    model: str
    vocabulary: int = Field(description="The words that have a probability, in all 1.")
    vocabulary_total: int = Field(description="The words that the model was trained on.")
    usage: Usage
    tokenizer: str = optional("", "The tokenizer, for a request with `text`.")
    tokens: list[list[str]] = optional((), f"{TOKENS_TEXT} For a request with `text`.")
    offsets: list[list[Offset]] = optional((), f"{OFFSETS_TEXT} For a request with `text`.")


class ScoreResponse(_LanguageResponse):
    """Surprisal, in the order of the sentences."""

    unit: str = Field(description="`bits`: -log2 of a probability.")
    scores: list[SentenceScores]


class Substitute(BaseModel):
    """A word and its probability at a place."""

    word: str
    probability: float


class SubstitutesResponse(_LanguageResponse):
    """The most probable words, in the order of the sentences and of their positions."""

    direction: Direction
    substitutes: list[list[list[Substitute]]]
