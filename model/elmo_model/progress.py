"""The progress of a long computation: a bar on a terminal, or a line now and then."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

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
from rich.text import Text

from elmo_model.steps import OnStep

_RATE_SECONDS = 120
"""Time over which a rate is measured: more is steadier, less follows a change sooner."""
LINE_SECONDS = 30.0
"""Time between two lines where no terminal shows a bar."""


@contextmanager
def steps(
    console: Console, *, lines: bool = True, clock: Callable[[], float] = time.monotonic
) -> Iterator[OnStep]:
    """Yield a function that shows the current step: a bar, its rate and the time left.

    A step whose total is not known has the seconds that it takes. Where the console is no terminal
    there are `lines` instead, one in 30 seconds.
    """
    is_shown = console.is_terminal and not console.quiet
    told = clock()
    columns = TextColumn("{task.description}", markup=False), BarColumn(), _Rate(), _Time()
    with Progress(
        *columns, console=console, disable=not is_shown, speed_estimate_period=_RATE_SECONDS
    ) as progress:

        def step(name: str, done: int = 0, total: int = 0, unit: str = "tokens") -> None:
            nonlocal told
            if lines and not is_shown and clock() - told >= LINE_SECONDS:
                of_all = f": {done:,} of {total:,} {unit}" if total else ""
                console.print(name + of_all, markup=False, highlight=False)
                told = clock()
            known = next((task for task in progress.tasks if task.description == name), None)
            if known is None:
                finish()
                progress.add_task(name, total=total or None, completed=done, unit=unit)
            elif done < known.completed:
                progress.reset(known.id, total=total or None, completed=done)
            else:
                progress.update(known.id, total=total or None, completed=done)

        def finish() -> None:
            for task in progress.tasks:
                if task.total is None:
                    progress.update(task.id, total=1, completed=1, unit="")

        yield step
        finish()


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


def output() -> Console:
    """Return a console on standard output; nothing that happens to its reader raises."""
    return Console(file=cast(TextIO, _Unbreakable(sys.stdout)), highlight=False, soft_wrap=True)


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

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _drop(self) -> None:
        """Point the descriptor at nothing: text left in the buffer would fail again at exit."""
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self._stream.fileno())
        os.close(nothing)
