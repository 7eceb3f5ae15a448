"""Words as two arrays."""

from elmo_model.neighbours.word_list import WordList

WORDS = ["a", "", "Fluß", "\ud800", "日本", "b"]


def test_words_come_back_by_number() -> None:
    words = WordList.of(WORDS)

    assert len(words) == len(WORDS)
    assert [words[number] for number in range(len(WORDS))] == WORDS


def test_there_may_be_no_word() -> None:
    assert len(WordList.of([])) == 0
