"""Output of the commands: one line for an error, progress on a terminal."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from elmo_serve.model_cache import OnProgress


def fail(message: str, code: int) -> NoReturn:
    """Print one line to stderr and end with `code`: 1 for a failure, 2 for a wrong command line."""
    click.echo(f"elmo: {' '.join(message.split())}", err=True)
    sys.exit(code)


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Yield a function that names the current step; a terminal shows it with the seconds it takes.

    Nothing is printed where stderr is no terminal.
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

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
def download_progress() -> Iterator[OnProgress]:
    """Yield a callback of downloads: a bar for each file on a terminal, one line a file elsewhere.

    A file gets its bar or line with its first bytes.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

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
def token_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function of a step, its tokens done and its tokens in all.

    A terminal shows a bar for each step, its speed and the time left; nothing is printed elsewhere.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Task as Bar
    from rich.text import Text

    class Speed(ProgressColumn):
        """Tokens a second, without those of an earlier run."""

        def render(self, task: Bar) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.0f} tokens/s" if speed else "", "progress.data.speed")

    console = Console(stderr=True)
    name = TextColumn("{task.description}", markup=False)
    columns = name, BarColumn(), TaskProgressColumn(), Speed(), TimeRemainingColumn()
    bars: dict[str, Any] = {}
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:

        def step(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what, total=total, completed=done)
            progress.update(bars[what], completed=done)

        yield step
