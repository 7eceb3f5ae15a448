"""Text files: plain or compressed, lines end at newlines alone, errors name the file."""

import bz2
import gzip
import lzma
from pathlib import Path

import pytest

from elmo_model.text_files import TextError, open_text

TEXT = "Ein Satz .\nzwei\u2028Zeilen\r\n東京\n"


@pytest.mark.parametrize(
    ("name", "compress"),
    [("a.txt", bytes), ("a.gz", gzip.compress), ("a.xz", lzma.compress), ("a.bz2", bz2.compress)],
)
def test_lines_end_at_newlines_alone(tmp_path: Path, name: str, compress: type) -> None:
    (tmp_path / name).write_bytes(compress(TEXT.encode()))
    with open_text(tmp_path / name) as lines:
        assert list(lines) == ["Ein Satz .\n", "zwei\u2028Zeilen\r\n", "東京\n"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.txt", None),
        ("latin.txt", "Fluß\n".encode("latin-1")),
        ("cut.gz", gzip.compress(TEXT.encode(), mtime=0)[:-9]),
        ("plain.xz", b"not compressed"),
        ("plain.bz2", b"not compressed"),
    ],
)
def test_an_error_names_the_file(tmp_path: Path, name: str, content: bytes | None) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with (
        pytest.raises(TextError, match=f"{name}: cannot be read as text"),
        open_text(path) as lines,
    ):
        list(lines)
