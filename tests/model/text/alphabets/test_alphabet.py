"""Every alphabet keeps the interface: ids of N words, within the table, padded to a width."""

import numpy as np
import pytest

from elmo_model.text import alphabets
from elmo_model.text.alphabets import Lexicon, Utf8Alphabet, WordAlphabet, WordVocabulary
from elmo_model.text.alphabets.alphabet import Alphabet, AlphabetError

MARKS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")
CHARACTERS = {name: number for number, name in enumerate([*"abc", *MARKS])}
WORDS = {name: number for number, name in enumerate(["<oov>", "<bos>", "<eos>", "<pad>", "ab"])}
EVERY: list[Alphabet] = [
    Utf8Alphabet(12),
    Lexicon(CHARACTERS, {}, 8),
    Lexicon(CHARACTERS, WORDS, 8),
    WordVocabulary(("<S>", "</S>", "<UNK>", "ab", "c")),
]
TEXTS = ["", "a", "ab", "é", "東京", "c" * 99, "<bos>", "\ud800"]


@pytest.mark.parametrize("alphabet", EVERY, ids=lambda each: type(each).__name__)
def test_ids_lie_in_the_table_and_lengths_within_the_longest_word(alphabet: Alphabet) -> None:
    words = [alphabet.begin, *TEXTS, alphabet.end]
    lengths = alphabet.lengths(words)

    if not alphabet.size:  # whole words alone
        assert not any(lengths) and alphabet.encode(words, 0).shape == (len(words), 0)
        return
    assert all(0 < length <= alphabet.max_characters for length in lengths)
    for width in {max(lengths), alphabet.max_characters}:
        ids = alphabet.encode(words, width)
        assert ids.shape == (len(words), width) and ids.dtype == np.int64
        assert ids.min() >= 0 and ids.max() < alphabet.size
    alone = [alphabet.encode([word], max(lengths))[0] for word in words]
    np.testing.assert_array_equal(alphabet.encode(words, max(lengths)), alone)


@pytest.mark.parametrize("alphabet", EVERY, ids=lambda each: type(each).__name__)
def test_a_description_restores_the_alphabet(alphabet: Alphabet) -> None:
    restored = alphabets.from_dict(alphabet.to_dict())

    assert restored == alphabet and type(restored) is type(alphabet)
    assert (restored.begin, restored.end) == (alphabet.begin, alphabet.end)


def test_whole_words_are_looked_up_by_the_alphabets_that_say_so() -> None:
    by_word = [each for each in EVERY if isinstance(each, WordAlphabet)]

    assert [type(each) for each in by_word] == [Lexicon, Lexicon, WordVocabulary]
    for each in by_word:
        if each.word_count:
            ids = each.word_ids(["ab", "unknown", "ab"])
            assert ids.shape == (3,) and ids[0] == ids[2] != ids[1]
            assert ids.max() < each.word_count


def test_a_vocabulary_gives_the_row_of_a_word_and_of_two_equal_words_the_last() -> None:
    vocabulary = WordVocabulary(("</S>", "<UNK>", "the", "cat", "", "<S>", "cat"))

    assert vocabulary.word_ids(["cat", "The", "", "<S>", "</S>"]).tolist() == [6, 1, 4, 5, 0]
    assert vocabulary.word_count == 7


def test_a_lexicon_has_one_character_for_a_boundary_and_rows_for_what_is_unknown() -> None:
    """`test_elmoformanylangs.py` compares the other ids with those of the tool."""
    alphabet = Lexicon(CHARACTERS, {"<bos>": 0, "<eos>": 1, "abc": 2, "<oov>": 3}, 5)

    assert alphabet.encode(["<bos>", "<eos>"], 4).tolist() == [[8, 3, 7, 6], [8, 4, 7, 6]]
    assert alphabet.lengths(["", "天", "天天天天a", "<bos>", "<pad>"]) == [2, 3, 5, 3, 5]
    assert alphabet.word_ids(["xa", "ABC", "abcd"]).tolist() == [3, 3, 2]
    assert (alphabet.size, alphabet.word_count) == (9, 4)
    assert (Lexicon(CHARACTERS, {}).word_count, Lexicon({}, WORDS).size) == (0, 0)


LEXICON = {"kind": "lexicon", "characters": CHARACTERS, "words": WORDS, "max_characters": 8}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "alphabet kind is None, expected utf8 or lexicon"),
        ({"kind": ["utf8"]}, "alphabet kind is"),
        ({"kind": "utf8", "max_characters": 2}, "max_characters"),
        ({"kind": "utf8", "max_characters": "50"}, "max_characters is '50', expected"),
        ({"kind": "vocabulary", "words": None}, "alphabet.words is null, expected a list"),
        ({"kind": "vocabulary", "words": "the cat"}, "words is 'the cat', expected a list"),
        ({"kind": "vocabulary", "words": ["<S>", 3]}, "words.1 is 3, expected a valid string"),
        ({"kind": "vocabulary", "words": ["<S>", "</S>"]}, "lacks <UNK>; expected rows for <S>"),
        ({**LEXICON, "characters": {"a": 0}}, "characters lack <bos>, expected an id"),
        ({**LEXICON, "words": {"a": 0, "<bos>": 1, "<eos>": 2}}, "<oov>"),
        ({**LEXICON, "words": {**WORDS, "a": -1}}, "words.a is -1, expected greater than or equal"),
        ({**LEXICON, "words": []}, r"alphabet.words is \[\], expected an object"),
        ({**LEXICON, "characters": {}, "words": {}}, "neither characters nor words"),
    ],
)
def test_a_wrong_description_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(AlphabetError, match=message):
        alphabets.from_dict(values)
