"""Output of the commands: one line for an error, progress on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NoReturn

import click

from elmo_model.steps import OnStep


def tell(line: str) -> None:
    """Print one line of notice to stderr."""
    click.echo(f"elmo: {line}", err=True)


def fail(message: str, code: int) -> NoReturn:
    """Print one line to stderr and end with `code`: 1 for a failure, 2 for a wrong command line."""
    tell(" ".join(message.split()))
    sys.exit(code)


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of cells to standard output, in columns."""
    from elmo_serve.commands import progress

    click.echo(progress.table(rows))


def steps() -> AbstractContextManager[OnStep]:
    """Show the current step on stderr: see `elmo_model.progress`, which needs rich."""
    from rich.console import Console

    from elmo_model import progress

    return progress.steps(Console(stderr=True))


def download_progress() -> AbstractContextManager[Callable[[str, int, int], None]]:
    """Show downloads: see `elmo_serve.commands.progress`."""
    from elmo_serve.commands import progress

    return progress.downloads()
