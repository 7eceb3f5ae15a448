"""The vocabulary file: which file it is, and words that a line cannot hold."""

from pathlib import Path

import pytest

from elmo_model.checkpoints import CheckpointError
from elmo_model.checkpoints.source import in_folder
from elmo_model.checkpoints.vocabulary_file import find, read, text_of

WORDS = ("<S>", "</S>", "<UNK>", "a\u2028b", "", "naïve")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])  # the second writes a mark
def test_a_written_vocabulary_is_read_back(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "vocab.txt").write_text(text_of(WORDS), encoding=encoding)

    assert tuple(read(in_folder(tmp_path)).words) == WORDS


@pytest.mark.parametrize("word", ["a\nb", " a", "a\r", "!!!MAXTERMID"])
def test_a_word_that_a_line_cannot_hold_is_refused(word: str) -> None:
    with pytest.raises(CheckpointError, match="cannot stand on a line of its own"):
        text_of([*WORDS, word])


def test_an_exact_name_wins(tmp_path: Path) -> None:
    for name in ("vocab-old.txt", "vocab.txt", "words.txt", "vocab.json"):
        (tmp_path / name).write_text("")
    assert find(in_folder(tmp_path)) == "vocab.txt"

    (tmp_path / "vocab.txt.gz").write_text("")
    assert find(in_folder(tmp_path)) == "vocab.txt.gz"


def test_a_file_that_is_no_gzip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt.gz").write_text("plain")

    with pytest.raises(CheckpointError, match=r"vocab\.txt\.gz: cannot be read"):
        read(in_folder(tmp_path))
