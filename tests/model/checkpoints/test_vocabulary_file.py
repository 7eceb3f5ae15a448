"""The vocabulary file: which file it is, its lines, and words that a line cannot hold."""

import gzip
from pathlib import Path

import pytest

from elmo_model.checkpoints import CheckpointError
from elmo_model.checkpoints.source import in_folder
from elmo_model.checkpoints.vocabulary_file import find_vocabulary, read, text_of

WORDS = ("<S>", "</S>", "<UNK>", "a\u2028b", "", "naïve")
TEXT = text_of(WORDS).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("vocab.txt", TEXT),
        ("vocab.txt.gz", gzip.compress(TEXT, mtime=0)),
        ("vocab-2016-09-10.txt", b"\xef\xbb\xbf" + TEXT),  # a byte order mark
        ("vocab.txt", b" " + TEXT.replace(b"</S>\n", b"!!!MAXTERMID\r\n</S> \r")),
    ],
)
def test_lines_are_read_as_in_bilm_tf(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)

    assert tuple(read(in_folder(tmp_path)).words) == WORDS


@pytest.mark.parametrize("word", ["a\nb", " a", "a\r", "!!!MAXTERMID"])
def test_a_word_that_a_line_cannot_hold_is_refused(word: str) -> None:
    with pytest.raises(CheckpointError, match="line"):
        text_of([*WORDS, word])


def test_an_exact_name_wins(tmp_path: Path) -> None:
    for name in ("vocab-old.txt", "vocab.txt", "words.txt", "vocab.json"):
        (tmp_path / name).write_text("")
    assert find_vocabulary(in_folder(tmp_path)) == "vocab.txt"

    (tmp_path / "vocab.txt.gz").write_text("")
    assert find_vocabulary(in_folder(tmp_path)) == "vocab.txt.gz"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "holds no"),
        ({"vocab-a.txt": TEXT, "vocab-b.txt": TEXT}, "vocab-b"),
        ({"vocab.txt.gz": b"plain"}, "cannot be read"),
        ({"vocab.txt.gz": gzip.compress(bytes(65 << 20), 1)}, "larger"),
        ({"vocab.txt": b"\xe9\n"}, "UTF-8"),
        ({"vocab.txt": b"<S>\n</S>\n"}, "<UNK>"),
    ],
)
def test_a_folder_without_a_vocabulary_is_refused(
    tmp_path: Path, files: dict[str, bytes], message: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)

    with pytest.raises(CheckpointError, match=message):
        read(in_folder(tmp_path))
