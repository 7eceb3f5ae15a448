"""The sentence that every input format yields, and the error of this package."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a file: its text, which some output formats use as a key, and its tokens."""

    text: str
    tokens: list[str]


class FileError(Exception):
    """An input, an output or a combination of them that is impossible: one line for the user."""
