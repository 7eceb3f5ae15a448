"""The look-up: the exact word, then lower case, else zeros."""

from pathlib import Path

import pytest

from elmo_model.word_vectors.formats import WordVectorsError
from elmo_model.word_vectors.look_up import WordVectors
from elmo_model.word_vectors.store import store_folder


def opened(folder: Path, content: bytes) -> WordVectors:
    path = folder / "vectors.txt"
    path.write_bytes(content)
    return WordVectors.open(store_folder(path, folder / "cache"))


def test_the_exact_word_wins_over_lower_case_and_unknown_words_are_zeros(tmp_path: Path) -> None:
    found = opened(tmp_path, b"Bank 1 1\nbank 2 2\nthe 3 3\n")

    rows, unknown = found.look_up(["Bank", "bank", "BANK", "The", "dog", "Bank", "\ud800"])

    assert rows[:, 0].tolist() == [1, 2, 2, 3, 0, 1, 0]
    assert unknown.tolist() == [False, False, False, False, True, False, True]


def test_of_a_word_that_occurs_twice_the_first_counts(tmp_path: Path) -> None:
    found = opened(tmp_path, b"a 1\nb 2\na 3\n")

    assert found.look_up(["a", "b"])[0].tolist() == [[1], [2]]
    assert found.words.utf8(2) == b"a"


def test_no_tokens_give_no_rows(tmp_path: Path) -> None:
    rows, unknown = opened(tmp_path, b"a 1 2\n").look_up([])

    assert rows.shape == (0, 2) and unknown.shape == (0,)


def test_the_revision_is_that_of_the_content(tmp_path: Path) -> None:
    for name, content in (("one", b"a 1\n"), ("two", b"a 1\n"), ("three", b"a 2\n")):
        (tmp_path / name).write_bytes(content)

    one, two, three = (
        WordVectors.open(store_folder(tmp_path / name, tmp_path)).info
        for name in ("one", "two", "three")
    )

    assert one.revision == two.revision != three.revision
    assert (one.file, one.format, one.words, one.dimension) == ("one", "glove", 1, 1)


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WordVectorsError, match="is no map of word vectors"):
        WordVectors.open(tmp_path)
    (tmp_path / "file").write_bytes(b"a 1\n")
    folder = store_folder(tmp_path / "file", tmp_path)
    facts = (folder / "map.json").read_text().replace('"version": 2', '"version": 0')
    (folder / "map.json").write_text(facts)
    with pytest.raises(WordVectorsError, match="it is of another version"):
        WordVectors.open(folder)
