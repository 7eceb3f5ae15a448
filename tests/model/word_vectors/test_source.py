"""Streams of bytes with a look ahead."""

from pathlib import Path

import pytest

from elmo_model.word_vectors.source import WordVectorsError, open_source


def test_a_long_field_is_read_over_the_end_of_the_buffer(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * 3_000_000 + b" rest\nline")

    with open_source(path) as source:
        assert source.peek(2) == b"aa"
        assert len(source.until(b" ", 4_000_000, "a word")) == 3_000_000
        assert source.exactly(2, "two bytes") == b"re"
        assert list(source.lines()) == [b"st\n", b"line"]


@pytest.mark.parametrize(("most", "content"), [(2, b"abc "), (9, b"abc")])
def test_a_field_without_an_end_is_refused(tmp_path: Path, most: int, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)

    with (
        open_source(path) as source,
        pytest.raises(WordVectorsError, match=f"a word has no end within {most} bytes"),
    ):
        source.until(b" ", most, "a word")


def test_a_file_that_ends_early_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")

    with (
        open_source(tmp_path / "file") as source,
        pytest.raises(WordVectorsError, match="file: ends after 3 of 4 bytes of a number"),
    ):
        source.exactly(4, "a number")
