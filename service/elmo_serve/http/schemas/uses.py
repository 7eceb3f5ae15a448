"""The query and the response of GET /uses."""

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from elmo_model.uses.index import Use
from elmo_serve.http.schemas.embed import Int64
from elmo_serve.http.schemas.neighbours import IndexedText, IndexedUse
from elmo_serve.validation import FAULT, optional

_MOST_USES: Final = 100
"""Uses of one response: a sentence has up to 1,000 tokens."""


def _a_form(word: str) -> str:
    if any(character.isspace() for character in word):
        raise PydanticCustomError(FAULT, "has white space, expected one word as the text has it")
    return word


class UsesQuery(BaseModel):
    """The form to look for, and the uses to return."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    word: Annotated[str, Field(min_length=1), AfterValidator(_a_form)] = Field(
        description="A word as the text has it, upper and lower case included."
    )
    offset: Int64 = optional(0, "Uses to leave out from the start of the text on.", ge=0)
    limit: int = optional(50, "Uses to return at most.", ge=1, le=_MOST_USES)
    model: str | SkipJsonSchema[None] = optional(
        None, "A model of the server. Default: the first one."
    )


class UseInContext(IndexedUse):
    """A use with the text around it."""

    before: str = Field(description="The tokens before it, with spaces between them.")
    after: str = Field(description="The tokens after it.")

    @classmethod
    def of(cls, use: Use) -> "UseInContext":
        """Return a use with the text around it."""
        before, after = use.sentence[: use.token], use.sentence[use.token + 1 :]
        return cls(
            sentence=list(use.sentence),
            token=use.token,
            line=use.line,
            before=" ".join(before),
            after=" ".join(after),
        )


class UsesResponse(BaseModel):
    """The uses of a form in the order of the text."""

    word: str
    count: Int64 = Field(description="All its uses in the text; 0 for an unknown word.")
    uses: list[UseInContext]
    index: IndexedText
    model: str
    revision: str = Field(description="The revision of the model and of the index.")
