"""Text files: plain or compressed, lines end at newlines alone, errors name the file."""

import bz2
import gzip
import lzma
import zlib
from pathlib import Path

import pytest

from elmo_model.text.lines import MAX_LINE, TextError, lines_of, numbered_lines

TEXT = "Ein Satz .\nzwei\u2028Zeilen\r\n東京\n"


def broken_stream() -> bytes:
    """Return a gzip file of which one byte has changed so that the stream itself is wrong."""
    data = bytearray(gzip.compress(str(list(range(3000))).encode(), mtime=0))
    for place in range(20, len(data) - 8):
        data[place] ^= 0xFF
        try:
            gzip.decompress(bytes(data))
        except zlib.error:
            return bytes(data)
        except (gzip.BadGzipFile, EOFError):
            pass
        data[place] ^= 0xFF
    raise AssertionError("no byte breaks it")


@pytest.mark.parametrize(
    ("name", "compress"),
    [("a.txt", bytes), ("a.gz", gzip.compress), ("a.xz", lzma.compress), ("a.bz2", bz2.compress)],
)
def test_lines_end_at_newlines_alone(tmp_path: Path, name: str, compress: type) -> None:
    (tmp_path / name).write_bytes(compress(TEXT.encode()))
    assert list(lines_of(tmp_path / name)) == ["Ein Satz .", "zwei\u2028Zeilen", "東京"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.txt", None),
        ("latin.txt", "Fluß\n".encode("latin-1")),
        ("cut.gz", gzip.compress(TEXT.encode(), mtime=0)[:-9]),
        ("broken.gz", broken_stream()),
        ("plain.xz", b"not compressed"),
        ("plain.bz2", b"not compressed"),
        ("endless.gz", gzip.compress(b"a" * (MAX_LINE + 1), mtime=0)),
    ],
)
def test_an_error_names_the_file(tmp_path: Path, name: str, content: bytes | None) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TextError, match=name):
        list(lines_of(path))


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffa\n\ufeffb\n".encode())

    assert [(number, text) for number, _, text in numbered_lines(path)] == [
        (1, "a"),
        (2, "\ufeffb"),
    ]
    assert sum(len(line) for _, line, _ in numbered_lines(path)) == path.stat().st_size
