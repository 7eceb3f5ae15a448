"""A part: numbers of words, places of tokens."""

from elmo_model.neighbours.part import word_numbers
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
