"""Progress of the commands on a terminal, and their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from elmo_model.steps import OnStep

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
def steps() -> Iterator[OnStep]:
    """Yield a function that shows the current step: a bar, its rate and the time left.

    A step whose total is not known has the seconds that it takes. Nothing is printed where stderr
    is no terminal.
    """
    console = Console(stderr=True)
    columns = TextColumn("{task.description}", markup=False), BarColumn(), _Rate(), _Time()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:

        def step(name: str, done: int = 0, total: int = 0, unit: str = "tokens") -> None:
            current = progress.tasks[-1] if progress.tasks else None
            if current is None or name != current.description or done < current.completed:
                finish()
                progress.add_task(name, total=total or None, completed=done, unit=unit)
            else:
                progress.update(current.id, completed=done)

        def finish() -> None:
            for task in progress.tasks:
                if task.total is None:
                    progress.update(task.id, total=1, completed=1, unit="")

        yield step
        finish()


@contextmanager
def downloads() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback of downloads: a bar for each file on a terminal, one line a file elsewhere.

    A file gets its bar or line with its first bytes.
    """
    told = set[str]()
    is_terminal = Console(stderr=True).is_terminal
    with steps() as step:

        def on_progress(name: str, done: int, total: int) -> None:
            if name not in told and not is_terminal:
                click.echo(f"elmo: fetching {name}", err=True)
            told.add(name)
            step(name, done // 1000, total // 1000 or 1, "kB")

        yield on_progress


class _Rate(ProgressColumn):
    """Units a second, without those of an earlier run."""

    def render(self, task: Task) -> Text:
        speed, unit = task.finished_speed or task.speed, task.fields["unit"]
        digits = 0 if speed and speed >= 10 else 1
        shown = f"{speed:,.{digits}f} {unit}/s" if speed and task.total and unit else ""
        return Text(shown, "progress.data.speed")


class _Time(ProgressColumn):
    """Time left, or the time since the beginning where the total is not known."""

    def render(self, task: Task) -> Text:
        is_left = task.total is not None and not task.finished
        return (TimeRemainingColumn() if is_left else TimeElapsedColumn()).render(task)
