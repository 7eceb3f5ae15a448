"""The progress of a run on standard output: a bar on a terminal, lines elsewhere."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

# Seconds between two reports of the same interval of the log. More on a terminal, where a report
# replaces the one before.
_LINE_SECONDS, _BAR_SECONDS = 30.0, 2.0


def output() -> Console:
    """Return a console on standard output; nothing that happens to its reader raises."""
    return Console(file=cast(TextIO, _Unbreakable(sys.stdout)), highlight=False, soft_wrap=True)


class Display(Protocol):
    """Shows how far a run is."""

    def advance(self, step: int) -> None:
        """Show that `step` steps are done."""

    def is_due(self) -> bool:
        """Tell whether the last report is so old that another is worth its cost."""

    def report(self, text: str) -> None:
        """Show the latest figures, in one line."""


@contextmanager
def display(title: str, steps: int, done: int, *, shown: bool) -> Iterator[Display]:
    """Show `done` of `steps` and later progress; with `shown` false nothing is printed."""
    console = output() if shown else Console(file=None, quiet=True)
    if not shown or not console.is_terminal:
        yield _Lines(console, steps, done)
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


class _Timer:
    """Tells when an interval in seconds is over; the first one is over at once."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock, self._last = seconds, clock, float("-inf")

    def is_over(self) -> bool:
        return self._clock() - self._last >= self._seconds

    def restart(self) -> None:
        self._last = self._clock()


class _Bar:
    def __init__(self, progress: Progress, title: str, steps: int, done: int) -> None:
        self._progress, self._timer = progress, _Timer(_BAR_SECONDS)
        self._task = progress.add_task(title, total=steps, completed=done, figures="")

    def advance(self, step: int) -> None:
        self._progress.update(self._task, completed=step)

    def is_due(self) -> bool:
        return self._timer.is_over()

    def report(self, text: str) -> None:
        self._timer.restart()
        self._progress.update(self._task, figures=text)


class _Lines:
    def __init__(self, console: Console, steps: int, done: int) -> None:
        self._console, self._steps, self._step = console, steps, done
        self._timer = _Timer(_LINE_SECONDS)

    def advance(self, step: int) -> None:
        self._step = step

    def is_due(self) -> bool:
        return self._timer.is_over()

    def report(self, text: str) -> None:
        self._timer.restart()
        self._console.print(f"{self._step:,}/{self._steps:,}  {text}", markup=False)


class _Unbreakable:
    """A text stream whose reader may go away: later text is dropped.

    `elmo train ... | tee log` loses its reader when Ctrl-C ends `tee` first, and a lost ssh
    connection takes the terminal. Neither may keep a run from being saved.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._drop()
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._drop()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:
        return self._stream.encoding

    def _drop(self) -> None:
        """Point the descriptor at nothing: text left in the buffer would fail again at exit."""
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self._stream.fileno())
        os.close(nothing)
