"""Streams of bytes with a look ahead."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from elmo_model.word_vectors.formats import Source, WordVectorsError, open_source


def test_a_long_field_is_read_over_the_end_of_the_buffer(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * 1_100_000 + b" rest\nline")

    with open_source(path) as source:
        assert source.peek(2) == b"aa"
        assert len(source.until(b" ", 2_000_000, "a word")) == 1_100_000
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


@pytest.mark.parametrize(
    "content", [gzip.compress(bytes(9))[:-4], b"\x1f\x8b\x08damaged"], ids=["cut", "damaged"]
)
@pytest.mark.parametrize(
    "read",
    [
        lambda source: source.peek(1),
        lambda source: source.exactly(99, "bytes"),
        lambda source: source.until(b" ", 99, "a word"),
        lambda source: source.rest(),
        lambda source: list(source.lines()),
    ],
    ids=["peek", "exactly", "until", "rest", "lines"],
)
def test_a_damaged_file_is_refused_by_whatever_reads_it(
    tmp_path: Path, content: bytes, read: Callable[[Source], object]
) -> None:
    (tmp_path / "file").write_bytes(content)

    with (
        open_source(tmp_path / "file") as source,
        pytest.raises(WordVectorsError, match="file: cannot be read: "),
    ):
        read(source)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WordVectorsError, match="cannot be read: "), open_source(tmp_path):
        pass


def test_an_error_of_the_body_is_not_one_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")

    with pytest.raises(OSError, match="elsewhere"), open_source(tmp_path / "file"):
        raise OSError("elsewhere")
