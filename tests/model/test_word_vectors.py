"""Static word vectors: the files that are read, the one that is written, and its look-up."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from elmo_model import word_vectors
from elmo_model.text.files import MAX_LINE
from elmo_model.word_vectors import (
    WordVectors,
    WordVectorsError,
    read_word_vectors,
    write_word_vectors,
)

WORD2VEC = b"5 3\n" + b"".join(b"w%d " % n + struct.pack("<3f", n, -n, 0.1) for n in range(5))


def opened(folder: Path, content: bytes) -> WordVectors:
    """Read a file of GloVe or word2vec; return the file that is made of it, opened."""
    (folder / "source").write_bytes(content)
    write_word_vectors(folder / "made", read_word_vectors(folder / "source"))
    return WordVectors.open(folder / "made")


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    "content",
    [
        b"w0 0 0 0.1\nw1 1 -1 0.1\nw2 2 -2 0.1\n",
        b"3 3\r\nw0 0 0 0.1 \r\nw1 1 -1 0.1\r\nw2 2 -2 0.1",
        WORD2VEC.replace(b"5 3", b"3 3")[: 4 + 3 * 15],
        WORD2VEC.replace(b"5 3", b"3 3")[: 4 + 3 * 15].replace(b"w", b"\nw") + b"\n",
    ],
    ids=["glove", "word2vec text", "word2vec binary", "word2vec.c"],
)
def test_every_format_gives_the_same_file(tmp_path: Path, content: bytes, pack: type) -> None:
    found = opened(tmp_path, pack(content))

    assert [found.word(row) for row in range(3)] == [b"w0", b"w1", b"w2"]
    expected = np.array([[0, 0, 0.1], [1, -1, 0.1], [2, -2, 0.1]], np.float32)
    np.testing.assert_array_equal(found.vectors, expected)
    np.testing.assert_array_equal(load_file(tmp_path / "made")["vectors"], expected)


def test_words_may_hold_spaces_and_other_white_space(tmp_path: Path) -> None:
    found = opened(tmp_path, "the 1 2\n. . . 3 4\n\u00a0 5 6\n 7 8\n".encode())

    rows, unknown = found.look_up(["the", ". . .", "\u00a0", ""])

    assert rows.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]] and not unknown.any()


def test_the_exact_word_wins_over_lower_case_and_unknown_words_are_zeros(tmp_path: Path) -> None:
    found = opened(tmp_path, b"Bank 1 1\nbank 2 2\nthe 3 3\n")

    rows, unknown = found.look_up(["Bank", "bank", "BANK", "The", "dog", "Bank", "\ud800"])

    assert rows[:, 0].tolist() == [1, 2, 2, 3, 0, 1, 0]
    assert unknown.tolist() == [False, False, False, False, True, False, True]
    assert [each.shape for each in found.look_up([])] == [(0, 2), (0,)]


def test_of_a_word_that_occurs_twice_the_first_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_vectors, "_hash", len)  # words of one hash are told apart
    found = opened(tmp_path, b"a 1\nb 2\na 3\nlong 4\n")

    rows, unknown = found.look_up(["a", "b", "c", "long"])

    assert rows.tolist() == [[1], [2], [0], [4]] and unknown.tolist() == [0, 0, 1, 0]
    assert found.word(2) == b"a"


def test_the_revision_is_that_of_the_content(tmp_path: Path) -> None:
    infos = [opened(tmp_path, content).info for content in (b"a 1\n", b"1 1\na 1.0\n", b"a 2\n")]

    assert infos[0] == infos[1] and infos[0].revision != infos[2].revision
    assert (infos[0].file, infos[0].words, infos[0].dimension) == ("made", 1, 1)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"the 1 2\ncat 1\n", ":2: .*1 finite number "),
        (b"the 1 2\ncat 1 2 3\n", ":2: .*3 finite"),
        (b"the 1 2\ncat 1 x\n", ":2: .*0 finite"),
        (b"the 1 2\ncat nan 1\n", ":2: .*1 finite"),
        (b"the 1 2\ncat 1 1e39\n", ":2: "),
        (b"the 1 2\n\n", ":2: "),
        (b"the\n", ":1: "),
        (b"2 2\nthe 1 2\n", ":2: .*expected 2"),
        (b"1 2\nthe 1 2\ncat 1 2\n", ":2: .*says 1"),
        (b"1 0\nthe\n", ":1: .*width"),
        (b"the 1 2\n" + b"a" * (MAX_LINE + 1), ":2: .*line of more"),
        (WORD2VEC[:-4], "word 5 of 5: .*ends"),
        (WORD2VEC + b"x", "holds b'x'"),
        (WORD2VEC.replace(b"5 3", b"5 4", 1), "word . of 5"),
        (b"1 1\nx " + struct.pack("<f", np.nan), "word 1 of 1: .*finite"),
        (b"1 1\n" + b"\x01" * 10_001, "word 1 of 1: .*no end"),
        (b"2 0\na \x01 b ", ":1: .*width"),
        (gzip.compress(b"a 1\n" * 99, mtime=0)[:-4], "cannot be read"),
        (b"\x1f\x8b\x08damaged", "cannot be read"),
        (b"", "no words"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, content: bytes, place: str) -> None:
    with pytest.raises(WordVectorsError, match=place):
        opened(tmp_path, content)

    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("cut", [0, 7, 8, 500, 1_023, 1_024, -1, None])
def test_a_file_that_is_not_whole_is_refused_and_the_command_is_named(
    tmp_path: Path, cut: int | None
) -> None:
    opened(tmp_path, b"the 1 2\nca 3 4\n")
    data = (tmp_path / "made").read_bytes()
    (tmp_path / "other").write_bytes(data[:cut] if cut is not None else data + b"\0")

    with pytest.raises(WordVectorsError, match="elmo word-vectors"):
        WordVectors.open(tmp_path / "other")


def test_changed_bytes_are_refused_or_looked_up(tmp_path: Path) -> None:
    """No damage may raise another error, or end the process, at the start or at a look-up."""
    opened(tmp_path, b"the 1 2\nca 3 4\ndog 5 6\n")
    data = np.frombuffer((tmp_path / "made").read_bytes(), np.uint8)
    draw = np.random.default_rng(0)
    refused = 0
    for _ in range(200):
        damaged = data.copy()
        damaged[draw.integers(len(data), size=5)] = draw.integers(256, size=5)
        damaged[draw.integers(1_024, len(data), size=5)] = draw.integers(256, size=5)
        (tmp_path / "other").write_bytes(damaged.tobytes())
        try:
            WordVectors.open(tmp_path / "other").look_up(["the", "ca", "dog", "cat"])
        except WordVectorsError:
            refused += 1

    assert refused > 100


def test_sources_that_cannot_be_opened_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no"):
        with pytest.raises(WordVectorsError, match="elmo word-vectors"):
            WordVectors.open(path)
        with pytest.raises(WordVectorsError, match="cannot be read"):
            next(read_word_vectors(path))
