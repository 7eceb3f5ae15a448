"""Postings: the tokens of each word."""

import numpy as np
import pytest

from elmo_model.neighbours.part import Postings

TOKEN_WORDS = np.array([5, 2, 5, 9, 2, 5], np.uint32)


def tokens_of(postings: Postings, words: list[int]) -> list[list[int]]:
    ranges = zip(*postings.ranges(np.array(words, np.int64)), strict=True)
    return [postings.tokens[start:end].tolist() for start, end in ranges]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([5], [[0, 2, 5]]),
        ([9, 2], [[3], [1, 4]]),
        ([0, 3, 10], [[], [], []]),
        ([], []),
    ],
)
def test_the_tokens_of_words_are_found_in_the_order_of_the_text(
    words: list[int], expected: list[list[int]]
) -> None:
    assert tokens_of(Postings.of(TOKEN_WORDS), words) == expected


def test_a_part_without_tokens_has_no_word() -> None:
    assert tokens_of(Postings.of(np.empty(0, np.uint32)), [0, 1]) == [[], []]
