"""The file of API keys."""

import os
from pathlib import Path

import pytest

from elmo_serve.settings import Settings
from elmo_serve.settings.values import read_keys


def test_a_line_is_a_key_with_or_without_a_name(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\nplain-key\n\nalice: her-key=\nbob:\t with:colon\n")

    found = read_keys(file)

    assert found.names == {"plain-key": "", "her-key=": "alice", "with:colon": "bob"}


def test_a_key_without_a_name_is_called_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("alice: one\ntwo\n")

    settings = Settings.model_validate({"api_keys": "zero", "api_keys_file": str(file)})

    assert settings.api_key_names() == {"zero": "1", "one": "alice", "two": "3"}


def test_a_file_that_is_no_short_regular_one_is_refused_unread(tmp_path: Path) -> None:
    """Without a limit the watch would wait for a FIFO for ever, or read gigabytes each second."""
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(3 << 30)  # a hole: it takes no space
    for name, word in (("fifo", "regular"), ("large", "larger")):
        with pytest.raises(ValueError, match=word):
            read_keys(tmp_path / name)
