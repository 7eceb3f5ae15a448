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
    if not alphabet.size:
        return  # whole words alone

    lengths = alphabet.lengths(words)

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


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(AlphabetError, match="kind is 'runes', expected utf8 or lexicon"):
        alphabets.from_dict({"kind": "runes"})
