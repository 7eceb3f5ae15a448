"""The base of all errors meant for a user."""

from typing import ClassVar, Final

SHOWN_CHARACTERS: Final = 64
"""Characters of a user's value that a message quotes."""


class ElmoError(ValueError):
    """A fault of the user's input. The message is a line: the value found and what is allowed.

    Settings have a line for each fault. The command line prints it and ends with `exit_code`: 1 for
    input that does not fit, 2 for a wrong command line or setting.
    """

    exit_code: ClassVar[int] = 1


class OptionError(ElmoError):
    """Options that are wrong, or do not fit each other, the machine or the input."""

    exit_code = 2


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 token`, `2,000 tokens`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def shown(value: object, limit: int = SHOWN_CHARACTERS) -> str:
    """Return a user's value for a message: quoted, on one line, cut after `limit` by `...`"""
    # Cut before it is quoted, because escaping a string of megabytes takes long.
    text = repr(value[: limit + 1] if isinstance(value, str) else value)
    if len(text) <= limit:
        return text
    closing = "" if text[-1].isalnum() else text[-1]  # of a quote or a bracket
    return f"{text[:limit]}...{closing}"
