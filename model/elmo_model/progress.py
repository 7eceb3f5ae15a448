"""The progress of a long computation on a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def steps(console: Console) -> Iterator[OnStep]:
    """Yield a function that shows the current step: a bar, its rate and the time left.

    A step whose total is not known has the seconds that it takes. Nothing is printed where
    the console is no terminal.
    """
    is_shown = console.is_terminal and not console.quiet
    columns = TextColumn("{task.description}", markup=False), BarColumn(), _Rate(), _Time()
    with Progress(
        *columns, console=console, disable=not is_shown, speed_estimate_period=_RATE_SECONDS
    ) as progress:

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
