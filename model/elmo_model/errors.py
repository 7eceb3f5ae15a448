"""The base of all errors meant for a user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

SHOWN_CHARACTERS: Final = 64
"""Characters of a user's value that a message quotes."""


class ElmoError(ValueError):
    """A fault of the user's input. The message is one line: the value found and what is allowed.

    The command line prints it and ends with `exit_code`: 1 for input that does not fit, 2 for a
    wrong command line or setting.
    """

    exit_code: ClassVar[int] = 1

    @property
    def lines(self) -> Sequence[str]:
        """The message, a line for each fault; most errors have one."""
        return (str(self),)


def shown(value: object, limit: int = 80) -> str:
    """Return a value as messages show it; `...` stands for what is beyond `limit` characters."""
    text = value if isinstance(value, str) else repr(value)
    cut = text if len(text) <= limit else f"{text[:limit]}..."
    return repr(cut) if isinstance(value, str) else cut


class OptionError(ElmoError):
    """Options that are wrong, or do not fit each other, the machine or the input."""

    exit_code = 2


def shown(value: object) -> str:
    """Return a user's value for a message: quoted, on one line, cut after 64 characters by `...`"""
    # Cut before it is quoted, because escaping a string of megabytes takes long.
    text = repr(value[: SHOWN_CHARACTERS + 1] if isinstance(value, str) else value)
    if len(text) <= SHOWN_CHARACTERS:
        return text
    return f"{text[:SHOWN_CHARACTERS]}...{text[-1]}"  # the last one closes the quote
