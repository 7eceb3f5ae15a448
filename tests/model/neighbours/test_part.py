"""A part: numbers of words, places of tokens, the tokens of each word, the most frequent words."""

import numpy as np
import pytest

from elmo_model.neighbours.part import Postings, most_frequent, word_numbers
from elmo_model.neighbours.writer import PartWriter
from tests.support.neighbours import centre_of, made_up

SENTENCES = [["a", "b"], [], ["b", "c", "a"]]


def test_words_are_numbered_where_they_come_first() -> None:
    numbers, new = word_numbers(SENTENCES, {})

    assert numbers.tolist() == [0, 1, 1, 2, 0]
    assert new == ["a", "b", "c"]


def test_known_words_keep_their_numbers() -> None:
    numbers, new = word_numbers(SENTENCES, {"c": 0, "x": 1})

    assert numbers.tolist() == [2, 3, 3, 0, 2]
    assert new == ["a", "b"]


def test_a_token_is_in_its_sentence() -> None:
    part = PartWriter(SENTENCES, centre_of(made_up(SENTENCES)), {}).finish()

    assert [part.place(token) for token in range(5)] == [(0, 2), (0, 2), (2, 5), (2, 5), (2, 5)]
    assert (part.tokens, part.sentences) == (5, 3)


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


def test_words_are_counted_over_all_parts() -> None:
    first, second = [["a", "b", "c", "c"]], [["d", "b", "d", "d", "c", "c"]]
    centre = centre_of(made_up(first))
    parts = [
        PartWriter(first, centre, {}).finish(),
        PartWriter(second, centre, {"a": 0, "b": 1, "c": 2}).finish(),
    ]

    assert most_frequent(parts).tolist() == [2, 3, 1, 0]
    assert most_frequent(parts, 2).tolist() == [2, 3]
