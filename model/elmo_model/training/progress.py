"""The progress of a run on standard output: lines of figures, and a bar on a terminal."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO, cast

from rich.console import Console

from elmo_model.progress import steps as steps_on
from elmo_model.steps import OnStep

_LINE_SECONDS = 30.0
"""Longest time between two reports of the same interval of the log."""


def output() -> Console:
    """Return a console on standard output; nothing that happens to its reader raises."""
    return Console(file=cast(TextIO, _Unbreakable(sys.stdout)), highlight=False, soft_wrap=True)


@contextmanager
def display(title: str, steps: int, done: int, *, shown: bool) -> Iterator["Display"]:
    """Show `done` of `steps` and later progress; with `shown` false nothing is printed."""
    console = output() if shown else Console(quiet=True)
    with steps_on(console) as on_step:
        yield Display(console, on_step, title, steps, done)


class Display:
    """Shows how far a run is."""

    def __init__(
        self, console: Console, on_step: OnStep, title: str, steps: int, step: int
    ) -> None:
        self._console, self._on_step, self._title, self._steps = console, on_step, title, steps
        self._reported = float("-inf")
        self.advance(step)

    def advance(self, step: int) -> None:
        """Show that `step` steps are done."""
        self._step = step
        self._on_step(self._title, step, self._steps, "steps")

    def is_due(self) -> bool:
        """Tell whether the last report is so old that another is worth its cost."""
        return time.monotonic() - self._reported >= _LINE_SECONDS

    def report(self, text: str) -> None:
        """Show the latest figures, in one line."""
        self._reported = time.monotonic()
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
