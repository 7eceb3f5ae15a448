"""The text format: one line a word; a line that does not fit is named."""

from pathlib import Path

import pytest

from elmo_model.word_vectors.formats import WordVectorsError
from elmo_model.word_vectors.look_up import WordVectors
from elmo_model.word_vectors.store import store_folder


def test_words_may_hold_spaces_and_other_white_space(tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    path.write_bytes("the 1 2\n. . . 3 4\n\u00a0 5 6\n 7 8\n".encode())

    rows, unknown = WordVectors.open(store_folder(path, tmp_path)).look_up(
        ["the", ". . .", "\u00a0", ""]
    )

    assert rows.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]] and not unknown.any()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"the 1 2\ncat 1\n", r":2: has 1 numbers behind 'cat', expected 2"),
        (b"the 1 2\ncat 1 2 3\n", r":2: has 3 numbers behind 'cat', expected 2"),
        (b"the 1 2\ncat 1 x\n", r":2: found 'x', expected 2 numbers behind 'cat'"),
        (b"the 1 2\ncat 1 nan\n", r":2: a number behind 'cat' is not finite"),
        (b"the 1 2\n\n", r":2: has 0 numbers behind '', expected 2"),
        (b"the\n", r":1: has 0 numbers behind 'the', expected 1 or more"),
        (b"2 2\nthe 1 2\n", ":2: the file ends after 1 words, and line 1 says 2"),
        (b"1 2\nthe 1 2\ncat 1 2\n", ":3: is word 2, and line 1 says 1"),
        (b"1 0\nthe\n", ":1: the width is 0"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_its_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(content)

    with pytest.raises(WordVectorsError, match=message):
        store_folder(path, tmp_path / "cache")
