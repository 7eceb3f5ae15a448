"""The file of API keys."""

from pathlib import Path

import pytest

from elmo_serve.settings import Settings
from elmo_serve.settings.api_keys import read


def test_a_line_is_a_key_with_or_without_a_name(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\nplain-key\n\nalice: her-key=\nbob:\t with:colon\n")

    found = read(file)

    assert [key.get_secret_value() for key in found.keys] == ["plain-key", "her-key=", "with:colon"]
    assert found.names == {"her-key=": "alice", "with:colon": "bob"}


def test_a_key_without_a_name_is_called_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("alice: one\ntwo\n")

    settings = Settings.model_validate({"api_keys": "zero", "api_keys_file": str(file)})

    assert settings.api_key_names() == {"zero": "1", "one": "alice", "two": "3"}


_NO_KEY = "a line is KEY or NAME: KEY, and a key of printable ASCII without spaces, commas, quotes"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("two words", _NO_KEY),
        ("name: two words", _NO_KEY),
        ("a,b", _NO_KEY),
        ('"key"', _NO_KEY),
        ("name: 'key'", _NO_KEY),
        ("na me: key", "a name has no spaces"),
        ("name: key # of the nightly job", "a comment needs a line of its own"),
        ("schlüssel", "it has characters that are not ASCII"),
    ],
)
def test_any_other_line_is_refused_with_the_reason(tmp_path: Path, line: str, fault: str) -> None:
    file = tmp_path / "keys"
    file.write_text(f"good\n{line}\n")

    with pytest.raises(ValueError, match=f"^line 2 is no key: {fault}$"):
        read(file)


def test_no_text_of_a_file_shows_in_its_representation(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("alice: s3cret\n")

    assert "s3cret" not in repr(read(file))
