"""Output of the commands: one line for an error, tables, progress on a terminal.

rich is imported when it is needed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
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
    """Print rows of cells to standard output, in columns with two spaces between."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(map(str.ljust, row, widths)).rstrip())


def steps() -> AbstractContextManager[OnStep]:
    """Show the current step on stderr: see `elmo_serve.commands.progress`."""
    from elmo_serve.commands import progress

    return progress.steps()


@contextmanager
def download_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback of downloads: a bar for each file on a terminal, one line a file elsewhere.

    A file gets its bar or line with its first bytes.
    """
    told = set[str]()
    with steps() as step:

        def on_progress(name: str, done: int, total: int) -> None:
            if name not in told and not sys.stderr.isatty():
                tell(f"fetching {name}")
            told.add(name)
            step(name, done // 1000, total // 1000 or 1, "kB")

        yield on_progress
