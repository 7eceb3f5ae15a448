"""Progress of the commands on a terminal, and their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from elmo_model.progress import steps

_WIDEST = 10_000  # characters of a line: the terminal breaks longer ones, not the table


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines; columns are as wide as needed, with two spaces between."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for row in rows:
        grid.add_row(*map(Text, row))
    console = Console(width=_WIDEST)
    with console.capture() as captured:
        console.print(grid)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


@contextmanager
def downloads() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback of downloads: a bar for each file on a terminal, one line a file elsewhere.

    A file gets its bar or line with its first bytes.
    """
    told = set[str]()
    console = Console(stderr=True)
    with steps(console) as step:

        def on_progress(name: str, done: int, total: int) -> None:
            if name not in told and not console.is_terminal:
                click.echo(f"elmo: fetching {name}", err=True)
            told.add(name)
            step(name, done // 1000, total // 1000 or 1, "kB")

        yield on_progress
