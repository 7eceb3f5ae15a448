"""The result of a tokenizer."""

from collections.abc import Callable
from dataclasses import dataclass


class TokenizeError(ValueError):
    """A text whose tokens cannot be located in it, or the name of no tokenizer."""


@dataclass(frozen=True, slots=True)
class Tokenized:
    """The tokens of one text and where they lie in it.

    `offsets` are pairs of start and end, in code points of the text as it was given:
    `text[start:end]` is the token, before any change of case that the tokenizer makes.
    """

    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, text: str, offsets: list[tuple[int, int]]) -> "Tokenized":
        """Return the tokens at some offsets of a text."""
        return cls(tuple(text[start:end] for start, end in offsets), tuple(offsets))


Tokenize = Callable[[str], Tokenized]
