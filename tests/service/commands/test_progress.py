"""Progress is shown as lines where there is no terminal, and a lost reader does no harm."""

import os
import sys

import pytest
from rich.console import Console

from elmo_serve.commands.progress import output, steps


def test_a_step_is_a_line_each_30_seconds_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    times = iter([0.0, 29.0, 31.0, 31.0, 60.0, 62.0, 62.0])
    with steps(Console(), clock=lambda: next(times)) as step:
        for done in range(4):
            step("Fitting", done, 9, "fits")
    assert capsys.readouterr().out == "Fitting: 1 of 9 fits\nFitting: 3 of 9 fits\n"


def test_a_lost_reader_does_not_raise() -> None:
    reader, writer = os.pipe()
    before = sys.stdout
    with os.fdopen(writer, "w") as stream:
        sys.stdout = stream
        try:
            console = output()
            os.close(reader)
            console.print("x" * 100_000)
            console.print("more")
        finally:
            sys.stdout = before
