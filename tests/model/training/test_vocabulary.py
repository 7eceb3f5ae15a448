"""Words are ranked by frequency, and the special words are always included."""

from pathlib import Path

import numpy as np
import pytest

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


def test_words_of_a_text_are_read_back(tmp_path: Path) -> None:
    """bilm-tf skips a line of one word, which a text may have as well."""
    vocabulary = Vocabulary.of([("a", 2), ("!!!MAXTERMID", 3), ("b", 1)], 9)
    vocabulary.write(tmp_path / "vocab.txt")
    assert Vocabulary.read(tmp_path / "vocab.txt") == vocabulary


def test_a_word_that_a_file_holds_twice_is_named(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nthe\nthe\n")
    with pytest.raises(AlphabetError, match=r"vocab\.txt: holds 'the' twice"):
        Vocabulary.read(tmp_path / "vocab.txt")
