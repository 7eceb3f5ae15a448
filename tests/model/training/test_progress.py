"""Progress is shown as lines where there is no terminal, and a lost reader does no harm."""

import os
import re
import sys

import pytest
from rich.console import Console

from elmo_model.progress import display, output, steps


def test_a_step_is_a_line_each_30_seconds_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    times = iter([0.0, 29.0, 31.0, 31.0, 60.0, 62.0, 62.0])
    with steps(Console(), clock=lambda: next(times)) as step:
        for done in range(4):
            step("Fitting", done, 9, "fits")
    assert capsys.readouterr().out == "Fitting: 1 of 9 fits\nFitting: 3 of 9 fits\n"


def test_lines_name_the_step(capsys: pytest.CaptureFixture[str]) -> None:
    with display("run", 2000, 0, shown=True) as shows:
        assert shows.is_due()  # the first report is due at once
        shows.advance(1500)
        shows.report("loss 1.0")
        assert not shows.is_due()
    assert capsys.readouterr().out == "1,500/2,000  loss 1.0\n"


def test_a_terminal_has_a_bar_as_well(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "100"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    with display("tiny", 2_000_000, 10, shown=True) as shows:
        for step in range(11, 100):
            shows.advance(step)
        shows.report("loss 1.0")

    shown = capsys.readouterr().out
    assert "99/2,000,000  loss 1.0" in shown.replace("\x1b[2K", "")
    assert re.search(r"tiny .* steps/s\S* \S*\d+:\d\d:\d\d", shown)


def test_a_hidden_display_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with display("run", 2, 0, shown=False) as shows:
        shows.advance(1)
        shows.report("loss 1.0")
    assert capsys.readouterr().out == ""


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
