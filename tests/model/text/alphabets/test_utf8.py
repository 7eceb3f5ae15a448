"""The alphabet of UTF-8 bytes and its traps."""

import numpy as np
import pytest

from elmo_model.text.alphabets import Utf8Alphabet
from tests.support import reference

WORDS = ["", "a", "été", "東京", "x" * 47, "x" * 48, "x" * 49, "é" * 30, "<S>", "</S>", "<s>", "\0"]


@pytest.mark.parametrize("limit", [3, 4, 20, 50])
@pytest.mark.parametrize("word", WORDS, ids=ascii)
def test_ids_equal_the_reference(word: str, limit: int) -> None:
    alphabet = Utf8Alphabet(limit)
    expected = reference.character_ids(word, limit)
    assert np.array_equal(alphabet.encode([word], limit)[0], expected)
    (length,) = alphabet.lengths([word])
    assert np.array_equal(alphabet.encode([word], length)[0], expected[:length])
    assert (expected[length:] == 261).all() and expected[length - 1] == 260


def test_ids_are_shifted_by_one_so_that_zero_means_no_token() -> None:
    assert Utf8Alphabet().encode(["\0"], 3)[0].tolist() == [259, 1, 260]
    assert Utf8Alphabet().encode(["ÿ"], 4)[0].tolist() == [259, 196, 192, 260]


def test_lone_surrogates_are_dropped() -> None:
    alphabet = Utf8Alphabet()
    assert np.array_equal(alphabet.encode(["\ud800a"], 5), alphabet.encode(["a"], 5))
