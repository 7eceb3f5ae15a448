"""The n-grams of a word are those of fastText."""

import numpy as np

from elmo_model.word_vectors.fasttext import END_OF_SENTENCE, Subwords


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
