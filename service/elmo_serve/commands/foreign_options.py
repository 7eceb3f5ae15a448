"""Options of AllenNLP and ELMoForManyLangs, which are refused with the option that is meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from elmo_serve.commands.terminal import fail

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def foreign_option(name: str, instead: str, *, of: str) -> Callable[[Decorated], Decorated]:
    """Return a decorator: a hidden option of the tool `of` that ends its command with status 2."""

    def end(_context: click.Context, _option: click.Parameter, value: object) -> None:
        if value:
            fail(f"{name} is an option of {of}: {instead}", code=2)

    own = name.replace("-", "_").strip("_") + "_foreign"  # not the name of the new option's value
    return click.option(name, own, hidden=True, expose_value=False, callback=end)
