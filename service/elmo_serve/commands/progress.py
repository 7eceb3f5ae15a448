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
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from elmo_model.steps import OnStep

_LINE_SECONDS = 30.0
"""Time between two lines where no terminal shows a bar."""


@contextmanager
def steps(
    console: Console | None = None,
    *,
    lines: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[OnStep]:
    """Yield a function that shows the current step: a bar, its units and the time left.

    Where the console, by default on standard error, is no terminal there are `lines` instead, one
    in 30 seconds.
    """
    console = console or Console(stderr=True)
    is_shown = console.is_terminal and not console.quiet
    told = clock()
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}", markup=False),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
        disable=not is_shown,
    ) as progress:

        def step(name: str, done: int = 0, total: int = 0, unit: str = "tokens") -> None:
            nonlocal told
            if lines and not is_shown and clock() - told >= _LINE_SECONDS:
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
        except OSError:  # text left in the buffer would fail again at exit
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self._stream.fileno())
            os.close(nothing)
        return len(text)

    def flush(self) -> None:
        """Do nothing: `write` has flushed the text."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
