"""Text that a server split into tokens, with the vectors of the tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from elmo_client.errors import CannotSend

Offset = tuple[int, int]
"""Start and end of a token in its text, in code points."""


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """The tokens of a text: `text[start:end]` is the token (in upper case for `characters`)."""

    text: str
    tokens: tuple[str, ...]
    offsets: tuple[Offset, ...]


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedText:
    """The tokens of a text, as in `TokenizedText`, and their vectors.

    The shape of `vectors` is that of the array that `embed` returns for a list of these tokens.
    """

    text: str
    tokens: tuple[str, ...]
    offsets: tuple[Offset, ...]
    vectors: NDArray[Any]


def check_text(text: object, number: int | None = None) -> str:
    """Return `text`, which must be a string. Raises CannotSend.

    `number` is its place in the call, counted from 0; None if it is the only one.
    """
    if isinstance(text, str):
        return text
    name = "text" if number is None else f"text {number}"
    hint = "; for tokens, use embed" if isinstance(text, list | tuple) else ""
    raise CannotSend(f"{name} is {text!r:.60}; expected a string{hint}")


def check_texts(texts: object) -> None:
    """Raise CannotSend for a single string in the place of a list of texts."""
    if isinstance(texts, str | bytes):
        raise CannotSend(f"texts is the string {texts!r:.60}; expected a list of strings")


def offsets_of(pairs: Sequence[Sequence[int]]) -> tuple[Offset, ...]:
    """Return offsets from the server's JSON."""
    return tuple((start, end) for start, end in pairs)
