"""The vocabulary of bilm-tf: whole words by their row."""

import pytest

from elmo_model.text import alphabets
from elmo_model.text.alphabets import AlphabetError, WordVocabulary

WORDS = ("</S>", "<UNK>", "the", "", "<S>", "cat")


def test_a_word_is_its_row_and_an_unknown_word_the_row_of_unk() -> None:
    assert WordVocabulary(WORDS).word_ids(["cat", "The", "", "<S>", "</S>"]).tolist() == [
        5,
        1,
        3,
        4,
        0,
    ]
    assert WordVocabulary(WORDS).word_count == 6


def test_the_last_of_two_equal_words_counts() -> None:
    assert WordVocabulary((*WORDS, "cat")).word_ids(["cat"]).tolist() == [6]


def test_there_are_no_characters() -> None:
    vocabulary = WordVocabulary(WORDS)
    assert (vocabulary.size, vocabulary.lengths(["cat", ""])) == (0, [0, 0])
    assert vocabulary.encode(["cat", ""], 0).shape == (2, 0)


@pytest.mark.parametrize("word", ["<S>", "</S>", "<UNK>"])
def test_a_missing_special_word_is_named(word: str) -> None:
    with pytest.raises(AlphabetError, match=f"vocabulary lacks {word}; expected rows for <S>, "):
        WordVocabulary(tuple(each for each in WORDS if each != word))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (None, "alphabet.words is null, expected a list"),
        ("the cat", "alphabet.words is 'the cat', expected a list"),
        (["<S>", 3], "alphabet.words.1 is 3, expected a string"),
    ],
)
def test_a_wrong_description_is_refused(words: object, message: str) -> None:
    with pytest.raises(AlphabetError, match=message):
        alphabets.from_dict({"kind": "vocabulary", "words": words})
