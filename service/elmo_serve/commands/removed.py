"""Commands and options that are gone: for one release each names the new one, in one line.

An option that only has another name still works; any other one ends its command.

Remove an entry after the release that follows its own removal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from elmo_serve.commands.terminal import fail

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

RENAMED: Final[Mapping[tuple[str, str], str]] = {
    ("bench", "--key"): "--api-key",
    ("look", "--key"): "--api-key",
}
"""Options that have another name, by command and old name."""


def with_new_name(command: str, argument: str) -> str:
    """Return an argument of a command; an option of the last release by its name of today."""
    option, equals, value = argument.partition("=")
    new = RENAMED.get((command, option))
    if new is None:
        return argument
    click.echo(f"elmo: {option} is now {new}; the next release refuses {option}", err=True)
    return f"{new}{equals}{value}"


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
    name: str, instead: str, *, is_flag: bool = False
) -> Callable[[Decorated], Decorated]:
    """Return a decorator: an option that is not listed, and ends its command with status 2."""

    def end(_context: click.Context, _option: click.Parameter, value: object) -> None:
        if value:
            fail(f"{name} was removed: {instead}", code=2)

    return click.option(name, is_flag=is_flag, hidden=True, expose_value=False, callback=end)
