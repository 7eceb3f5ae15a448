"""Commands and options that are gone: for one release each names the new one, in one line.

Remove an entry after the release that follows its own removal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from elmo_serve.commands.terminal import fail

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def removed_command(name: str, instead: str) -> click.Command:
    """Return a command that is not listed, takes any arguments, and ends with status 2."""

    @click.command(
        name,
        hidden=True,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        short_help=f"Removed: {instead}.",
    )
    def command() -> None:
        fail(f"`elmo {name}` was removed: {instead}", code=2)

    return command


def removed_option(
    name: str, instead: str, *, is_flag: bool = False, why: str = "was removed"
) -> Callable[[Decorated], Decorated]:
    """Return a decorator: an option that is not listed, and ends its command with status 2."""

    def end(_context: click.Context, _option: click.Parameter, value: object) -> None:
        if value:
            fail(f"{name} {why}: {instead}", code=2)

    own = name.replace("-", "_").strip("_") + "_removed"  # not the name of the new option's value
    return click.option(
        name, own, is_flag=is_flag or None, hidden=True, expose_value=False, callback=end
    )
