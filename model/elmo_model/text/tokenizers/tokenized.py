"""The result of a tokenizer, and the places of its tokens in the text."""

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from elmo_model.errors import ElmoError


class TokenizeError(ElmoError):
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

_QUOTES = {"``": ('"', "''"), "''": ('"',)}
"""The Penn Treebank's forms of a double quote, and what may stand for them in the text."""


def blank_controls(text: str) -> str:
    """Replace control characters (category Cc) by spaces, one for one, so that offsets stay."""
    if text.isprintable():
        return text
    return "".join(" " if unicodedata.category(c) == "Cc" else c for c in text)


def offsets_of(text: str, tokens: Iterable[str]) -> list[tuple[int, int]]:
    """Locate tokens in a text, one after another, with nothing but white space between them.

    A token `` or '' also matches a double quote, and `` matches '' as well. Raises TokenizeError
    for tokens that are not those of the text.
    """
    offsets, position = [], 0
    for token in tokens:
        while position < len(text) and text[position].isspace():
            position += 1
        forms = (token, *_QUOTES.get(token, ()))
        form_there = next((form for form in forms if text.startswith(form, position)), None)
        if form_there is None:
            shown = text[position : position + 20]
            raise TokenizeError(
                f"at character {position} the tokenizer changed {shown!r} to {token[:20]!r}; "
                "send `sentences` with your own tokens, or use the tokenizer `whitespace`"
            )
        offsets.append((position, position + len(form_there)))
        position += len(form_there)
    return offsets
