"""Output of the commands away from a terminal: one line for an error, one a download."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from elmo_serve.cli import main
from elmo_serve.commands.terminal import download_progress, fail, steps


def test_an_error_is_one_line_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        fail("two\nlines  and  spaces", code=2)

    assert end.value.code == 2
    assert capsys.readouterr().err == "elmo: two lines and spaces\n"


def test_a_download_is_one_line_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with download_progress() as on_progress:
        for done in (0, 50, 100):
            on_progress("weights.hdf5", done, 100)
        on_progress("options.json", 10, 10)

    captured = capsys.readouterr()
    assert captured.err.split("\n")[:2] == [
        "elmo: fetching weights.hdf5",
        "elmo: fetching options.json",
    ]
    assert captured.out == ""


def test_a_terminal_shows_each_step_its_units_and_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "100"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    with steps() as step:
        step("Reading")
        for done in range(0, 500, 10):
            step("Embedding", done, 1_000_000)
        step("Fitting", 1, 1, "fits")

    shown = capsys.readouterr().err
    reading, embedding = (shown.rindex(name) for name in ("Reading", "Embedding"))
    assert reading < embedding < shown.rindex("Fitting")
    assert re.search(r"Embedding .*490/1000000\S* tokens \S*(\d|-)+:\S\S:\S\S", shown)


def test_a_step_that_comes_again_has_its_line_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "100"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    with steps() as step:
        for part in range(3):
            step("Indexing", part, 3)
            step("Building graphs", 0, 10)
            step("Building graphs", 10, 10)

    shown, up = capsys.readouterr().err, "\x1b[1A"
    assert up in shown  # two lines
    assert f"{up}\x1b[2K{up}" not in shown  # never three


def test_a_terminal_without_a_character_gets_its_escape(tmp_path: Path) -> None:
    """As `PYTHONIOENCODING=latin-1` has it; a traceback would end the command."""
    (tmp_path / "in.txt").write_text("„Bank“ é\n", encoding="utf-8")

    result = CliRunner(charset="latin-1").invoke(main, ["tokenize", str(tmp_path / "in.txt")])

    assert (result.exit_code, result.exception) == (0, None)
    assert result.stdout_bytes == rb"\u201e Bank \u201c" + " é\n".encode("latin-1")
