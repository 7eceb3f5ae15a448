"""Tokens that a model reads otherwise than its user may expect: a warning for each call."""

import sys
import warnings
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

_Result = TypeVar("_Result")

_kept: ContextVar[list[str] | None] = ContextVar("_kept", default=None)
"""The warnings of a coroutine that runs for another thread, which shows them."""


class TokenWarning(UserWarning):
    """A token is longer than the model reads, or has white space inside."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[_Result]):
    """The results of one request, and the server's warning about its tokens; empty for none."""

    results: list[_Result]
    warning: str = ""


@dataclass(slots=True)
class WarnOnce:
    """Warns of the first odd token of a call; the others of a corpus would only repeat it."""

    is_done: bool = False

    def results(self, answer: Answer[_Result]) -> list[_Result]:
        """Return the results of an answer, and warn of its first token."""
        if answer.warning and not self.is_done:
            self.is_done = True
            warn(answer.warning)
        return answer.results


def warn(text: str) -> None:
    """Warn at the line of the user's call; do nothing for an empty text."""
    if (kept := _kept.get()) is not None:
        kept.append(text)
    elif text:
        warnings.warn(text, TokenWarning, stacklevel=_level())


async def keep_warnings(
    kept: list[str], function: Callable[..., Awaitable[_Result]], *arguments: Any
) -> _Result:
    """Run a coroutine, and append its warnings to `kept` for the thread that waits for it."""
    _kept.set(kept)
    return await function(*arguments)


def _level() -> int:
    """Return the `stacklevel` for the caller: the nearest frame that is not of these packages."""
    frame, level, own = sys._getframe(1), 1, ("elmo_client.", "elmo_serve.", "sklearn.")
    while frame.f_globals.get("__name__", "").startswith(own) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    return level
