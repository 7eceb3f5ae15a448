"""fastText's binary format and its subwords."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from elmo_model.word_vectors.fasttext import END_OF_SENTENCE, Subwords
from elmo_model.word_vectors.formats import WordVectorsError
from elmo_model.word_vectors.look_up import WordVectors
from elmo_model.word_vectors.store import store_folder

GOLDEN = Path(__file__).parents[2] / "golden" / "fasttext"


@pytest.mark.parametrize("name", ["subwords", "words"])
def test_words_and_words_never_seen_have_the_vectors_of_the_library(
    tmp_path: Path, name: str
) -> None:
    expected = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    found = WordVectors.open(store_folder(GOLDEN / f"{name}.bin", tmp_path))

    rows, unknown = found.look_up(list(expected))

    assert [row.tobytes().hex() for row in rows] == list(expected.values())
    never_seen = list(expected)[-6:]
    assert unknown.tolist() == [name == "words" and word in never_seen for word in expected]


def test_a_word_of_megabytes_has_no_vector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its subwords would take minutes and gigabytes."""
    lengths = []
    numbers = Subwords.numbers

    def counted(self: Subwords, word: bytes) -> list[int]:
        lengths.append(len(word))
        return numbers(self, word)

    found = WordVectors.open(store_folder(GOLDEN / "subwords.bin", tmp_path))
    monkeypatch.setattr(Subwords, "numbers", counted)

    rows, unknown = found.look_up(["x" * 1_024, "x" * 1_025, "x" * 10_000_000])

    assert unknown.tolist() == [False, True, True] and not rows[1:].any()
    assert set(lengths) == {1_024}


def test_a_library_that_is_installed_agrees(tmp_path: Path) -> None:
    library = pytest.importorskip("fasttext", reason="fasttext-wheel is not installed")
    text = tmp_path / "text.txt"
    text.write_text("a naïve cat sat on the mat\nthe river bank\n" * 50, encoding="utf-8")
    model = library.train_unsupervised(
        str(text), dim=7, minCount=1, bucket=50, minn=2, maxn=5, epoch=1, thread=1, verbose=0
    )
    model.save_model(str(tmp_path / "model.bin"))
    tokens = ["cat", "naïve", "rivers", "京都", "unseen", "</s>"]

    rows, _ = WordVectors.open(store_folder(tmp_path / "model.bin", tmp_path / "cache")).look_up(
        tokens
    )

    np.testing.assert_array_equal(rows, [model.get_word_vector(token) for token in tokens])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:100], "ends after .* bytes of|has no end"),
        (lambda data: data[:-4], None),  # the output matrix is not read
        (lambda data: data[:4] + struct.pack("<i", 13) + data[8:], "fastText's version 13"),
        (lambda data: data[:8] + struct.pack("<i", 6) + data[12:], "its matrix is 77 x 5"),
        (lambda data: data[:8] + struct.pack("<i", 0) + data[12:], "the width is 0, expected from"),
        (lambda data: data[:8] + struct.pack("<i", -5) + data[12:], "the width is -5, expected"),
        (lambda data: data[:40] + struct.pack("<i", -9) + data[44:], "has -9 buckets, expected 0"),
        (lambda data: data[:64] + struct.pack("<2i", -1, -1) + data[72:], "says -1 words of -1"),
        (lambda data: data[:64] + struct.pack("<2i", 27, 28) + data[72:], "says 28 words of 27"),
        (lambda data: data.replace(b"\xff" * 8, bytes(8), 1), "is pruned"),
    ],
)
def test_damaged_and_other_models_are_refused(
    tmp_path: Path, change: Callable[[bytes], bytes], message: str | None
) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(change((GOLDEN / "subwords.bin").read_bytes()))

    if message is None:
        store_folder(path, tmp_path)
        return
    with pytest.raises(WordVectorsError, match=message):
        store_folder(path, tmp_path)


def fnv(text: bytes) -> int:
    """Return fastText's `Dictionary::hash`: FNV-1a over signed bytes, in 32 bits."""
    code = 2166136261
    for byte in text:
        signed = byte - 256 if byte > 127 else byte
        code = ((code ^ (signed & 0xFFFFFFFF)) * 16777619) & 0xFFFFFFFF
    return code


def test_the_ngrams_are_of_whole_characters_without_single_boundaries() -> None:
    rows = np.zeros((1000, 2), np.float32)
    grams = ["é", "<é", "é>", "<é>"]

    assert sorted(Subwords(rows, 1, 3).numbers("é".encode())) == sorted(
        fnv(gram.encode()) % 1000 for gram in grams
    )
    assert Subwords(rows, 2, 2).numbers(b"") == [fnv(b"<>") % 1000]
    assert Subwords(rows, 1, 3).numbers(END_OF_SENTENCE) == []
    assert Subwords(rows[:0], 1, 3).numbers(b"a") == []


def test_the_vector_is_the_mean_of_all_rows() -> None:
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    subwords = Subwords(rows, 3, 3)
    own = np.array([1, 1], np.float32)
    (number,) = subwords.numbers(b"a")

    assert subwords.vector(b"a", own).tolist() == ((rows[number] + own) / 2).tolist()
    assert subwords.vector(b"").tolist() == [0, 0]
