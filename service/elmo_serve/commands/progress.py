"""Progress of the commands on a terminal, and their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Task as Bar
from rich.table import Table
from rich.text import Text

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
def steps() -> Iterator[Callable[[str], None]]:
    """Yield a function that names the current step; a terminal shows it with the seconds it takes.

    Nothing is printed where stderr is no terminal.
    """
    console = Console(stderr=True)
    columns = SpinnerColumn(finished_text="*"), TextColumn("{task.description}", markup=False)
    progress = Progress(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
    )

    def step(text: str) -> None:
        finish()
        progress.add_task(text, total=1)

    def finish() -> None:
        for task in progress.task_ids:
            progress.update(task, completed=1)

    with progress:
        yield step
        finish()


@contextmanager
def downloads() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback of downloads: a bar for each file on a terminal, one line a file elsewhere.

    A file gets its bar or line with its first bytes.
    """
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    rows: dict[str, TaskID] = {}

    def on_progress(name: str, done: int, total: int) -> None:
        if name not in rows:
            rows[name] = bar.add_task(name)
            if not console.is_terminal:
                click.echo(f"elmo: fetching {name}", err=True)
        bar.update(rows[name], completed=done, total=total)

    with bar:
        yield on_progress


@contextmanager
def tokens() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function of a step, its tokens done and its tokens in all.

    A terminal shows a bar for each step, its speed and the time left; nothing is printed elsewhere.
    """
    console = Console(stderr=True)
    name = TextColumn("{task.description}", markup=False)
    columns = name, BarColumn(), TaskProgressColumn(), _Speed(), TimeRemainingColumn()
    bars: dict[str, Any] = {}
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:

        def step(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what, total=total, completed=done)
            progress.update(bars[what], completed=done)

        yield step


class _Speed(ProgressColumn):
    """Tokens a second, without those of an earlier run."""

    def render(self, task: Bar) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f} tokens/s" if speed else "", "progress.data.speed")
