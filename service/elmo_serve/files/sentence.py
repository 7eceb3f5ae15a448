"""What every input format makes of a file, and what is said when it cannot."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a file: `text` is what it is called by, `tokens` is what is embedded."""

    text: str
    tokens: list[str]


class FileError(Exception):
    """An input, an output or a run of them that cannot be: one line for the user."""
