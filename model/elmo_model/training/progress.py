"""What a person sees of a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Display(Protocol):
    """Shows how far a run is."""

    def advance(self, step: int) -> None:
        """Say that so many steps are done."""

    def report(self, text: str) -> None:
        """Say how it goes: the latest figures, in one line."""


@contextmanager
def display(title: str, steps: int, done: int, *, shown: bool) -> Iterator[Display]:
    """Show a bar on a terminal and lines elsewhere; `shown` of false is silence."""
    console = Console(stderr=True)
    if not shown or not console.is_terminal:
        yield _Lines(console if shown else None, steps)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}", markup=False),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console, speed_estimate_period=120) as progress:
        yield _Bar(progress, title, steps, done)


class _Bar:
    def __init__(self, progress: Progress, title: str, steps: int, done: int) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=steps, completed=done, figures="")

    def advance(self, step: int) -> None:
        self._progress.update(self._task, completed=step)

    def report(self, text: str) -> None:
        self._progress.update(self._task, figures=text)


class _Lines:
    def __init__(self, console: Console | None, steps: int) -> None:
        self._console, self._steps, self._step = console, steps, 0

    def advance(self, step: int) -> None:
        self._step = step

    def report(self, text: str) -> None:
        if self._console is not None:
            self._console.print(f"{self._step:,}/{self._steps:,}  {text}", markup=False)
