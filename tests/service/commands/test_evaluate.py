"""`elmo evaluate`: options that are refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import elmo


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        ([], "no test set is given, expected --pos-train and --pos-test, ", 2),
        (["--pos-train", "x"], "--pos-train and --pos-test are given together or not at all", 2),
        (["--senses", "--tags", "xpos"], "--tags has no effect without --pos-train", 2),
        (["--senses", "--device", "gpu"], "there is no gpu; there is ", 2),
        (["--wic", "nowhere.tsv"], "nowhere.tsv: cannot be read", 1),
    ],
)
def test_a_wrong_selection_is_one_line(options: list[str], message: str, code: int) -> None:
    result = elmo("evaluate", "random-small", "--device", "cpu", *options)

    assert result.exit_code == code
    assert result.stderr.startswith("elmo: ") and message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_tags_are_a_choice(tmp_path: Path) -> None:
    result = elmo("evaluate", "random-small", "--tags", "pos")

    assert result.exit_code == 2
    assert "'pos' is not one of 'upos', 'xpos'" in result.stderr
