"""What commands say to those who run them: a line of refusal, steps, and bars of progress."""

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
    """Say it in one line and end with `code`: 1 for what went wrong, 2 for what was asked wrong."""
    click.echo(f"elmo: {' '.join(message.split())}", err=True)
    sys.exit(code)


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """OnProgress on a terminal which step runs and for how long; elsewhere show nothing."""
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
def fetching() -> Iterator[OnProgress]:
    """OnProgress on a terminal how much of each file is there; elsewhere one line a file."""
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

    def show(name: str, done: int, total: int) -> None:
        if name not in rows:
            rows[name] = bar.add_task(name)
            if not console.is_terminal:
                click.echo(f"elmo: fetching {name}", err=True)
        bar.update(rows[name], completed=done, total=total)

    with bar:
        yield show


@contextmanager
def tokens_done() -> Iterator[Callable[[str, int, int], None]]:
    """OnProgress on a terminal what is done, how fast, and for how long yet; elsewhere nothing."""
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
        """Tokens a second, of this run alone."""

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
