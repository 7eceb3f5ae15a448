"""The vocabulary of bilm-tf: words by their line."""

import pytest

from elmo_model import alphabets
from elmo_model.alphabets import AlphabetError, WordAlphabet, WordVocabulary

WORDS = ("</S>", "<UNK>", "the", "", "<S>", "cat")


def test_a_word_is_its_line_and_another_the_unknown_one() -> None:
    assert WordVocabulary(WORDS).word_ids(["cat", "The", "", "<S>", "</S>"]).tolist() == [
        5,
        1,
        3,
        4,
        0,
    ]
    assert WordVocabulary(WORDS).word_count == 6


def test_there_are_no_characters() -> None:
    vocabulary = WordVocabulary(WORDS)
    assert (vocabulary.size, vocabulary.lengths(["cat", ""])) == (0, [0, 0])
    assert vocabulary.encode(["cat", ""], 0).shape == (2, 0)


def test_a_vocabulary_survives_a_dictionary() -> None:
    again = alphabets.from_dict(WordVocabulary(WORDS).to_dict())
    assert again == WordVocabulary(WORDS) and isinstance(again, WordAlphabet)


@pytest.mark.parametrize("word", ["<S>", "</S>", "<UNK>"])
def test_what_every_sentence_needs_is_asked_for_by_name(word: str) -> None:
    with pytest.raises(AlphabetError, match=f"vocabulary lacks {word}, expected a row for it"):
        WordVocabulary(tuple(each for each in WORDS if each != word))


@pytest.mark.parametrize("words", [None, "the cat", ["<S>", 3]])
def test_a_description_that_is_not_sound_is_refused(words: object) -> None:
    with pytest.raises(AlphabetError, match=r"words is .*, expected a list of words"):
        alphabets.from_dict({"kind": "vocabulary", "words": words})
