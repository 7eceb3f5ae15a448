"""Words are ranked by frequency, and the special words are always included."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from elmo_model.checkpoints import CheckpointError
from elmo_model.text.alphabets import AlphabetError
from elmo_model.training.vocabulary import Vocabulary

COUNTS = [("rare", 1), ("b", 5), ("<UNK>", 9), ("a", 5), ("often", 7)]


def test_frequent_words_come_first_and_ties_go_by_spelling() -> None:
    assert Vocabulary.of(COUNTS, 99).words == (
        *("<S>", "</S>", "<UNK>"),
        *("often", "a", "b", "rare"),
    )
    assert Vocabulary.of(reversed(COUNTS), 5) == Vocabulary.of(COUNTS, 5)
    assert len(Vocabulary.of(COUNTS, 5)) == 5


def test_unknown_words_are_unk() -> None:
    vocabulary = Vocabulary.of(COUNTS, 5)
    assert vocabulary.word_ids(["a", "rare", "often"]).tolist() == [4, 2, 3]


def test_counts_of_other_words_are_those_of_unk() -> None:
    vocabulary = Vocabulary.of(COUNTS, 5)
    counts = vocabulary.counts(["a", "rare", "often", "b", "</S>"], np.array([5, 1, 7, 5, 2]))
    assert dict(zip(vocabulary.words, counts.tolist(), strict=True)) == {
        **{"<S>": 0, "</S>": 2, "<UNK>": 6},
        **{"often": 7, "a": 5},
    }


def test_a_file_holds_the_same_words(tmp_path: Path) -> None:
    vocabulary = Vocabulary(("<S>", "</S>", "<UNK>", "naïve", "東京"))
    vocabulary.write(tmp_path / "vocab.txt")
    assert Vocabulary.read(tmp_path / "vocab.txt") == vocabulary


def test_a_packed_file_with_other_line_ends_holds_the_same_words(tmp_path: Path) -> None:
    text = "<S>\r\n</S>\r<UNK>\nna\u2028ive\n"
    (tmp_path / "vocab.txt.gz").write_bytes(gzip.compress(text.encode()))

    words = Vocabulary.read(tmp_path / "vocab.txt.gz").words

    assert words == ("<S>", "</S>", "<UNK>", "na\u2028ive")


def test_a_file_of_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes("naïve".encode("latin-1"))

    with pytest.raises(CheckpointError, match=r"vocab\.txt: is not UTF-8"):
        Vocabulary.read(tmp_path / "vocab.txt")


def test_old_files_have_empty_words_and_a_marker(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n!!!MAXTERMID\n\nthe\n")
    words = Vocabulary.read(tmp_path / "vocab.txt").words
    assert words == ("<S>", "</S>", "<UNK>", "", "the")


def test_a_word_that_a_file_holds_twice_is_named(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nthe\nthe\n")
    with pytest.raises(AlphabetError, match=r"vocab\.txt: holds 'the' twice"):
        Vocabulary.read(tmp_path / "vocab.txt")


def test_a_vocabulary_without_special_words_is_refused() -> None:
    with pytest.raises(AlphabetError, match="lacks </S>"):
        Vocabulary(("<S>", "the"))
    with pytest.raises(AlphabetError, match="size is 2"):
        Vocabulary.of(COUNTS, 2)
