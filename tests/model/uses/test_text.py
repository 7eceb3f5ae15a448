"""The sentences of a user's text."""

from pathlib import Path

import pytest

from elmo_model.text.lines import TextError
from elmo_model.text.tokenizers import tokenizer
from elmo_model.uses import text
from elmo_model.uses.text import IndexFolderError, read_sentences


def test_blank_and_repeated_lines_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("a b\n\nc\na  b\r\n a b\nd e f\nc\n")

    sentences, lines = read_sentences(path, tokenizer("whitespace"))

    assert sentences == [["a", "b"], ["c"], ["d", "e", "f"]]
    assert lines == [1, 3, 6]


@pytest.mark.parametrize(
    ("data", "error", "place"),
    [
        (b"a b\nc \xff d\n", TextError, ":2: "),
        (b"a\n" * 3 + b"b " * 1_001 + b"\n", TextError, ":4: .*1,001"),
        (b"\n \n", IndexFolderError, "no token"),
        (b"", IndexFolderError, "no token"),
        (b"a b\nc d\ne f g\n", IndexFolderError, "more than 6 tokens"),
    ],
)
def test_a_fault_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, error: type, place: str
) -> None:
    monkeypatch.setattr(text, "MAX_TOKENS", 6)
    (tmp_path / "text").write_bytes(data)

    with pytest.raises(error, match=place):
        read_sentences(tmp_path / "text", tokenizer("whitespace"))
