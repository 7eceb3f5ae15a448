"""The alphabet of ELMoForManyLangs: swapped marks, code points, unknown words."""

from elmo_model.text.alphabets import Lexicon

CHARACTERS = {
    **{character: number for number, character in enumerate("abc天")},
    **{"<bos>": 4, "<eos>": 5, "<oov>": 6, "<pad>": 7, "<bow>": 8, "<eow>": 9},
}
WORDS = {"<oov>": 0, "<bos>": 1, "<eos>": 2, "<pad>": 3, "abc": 4, "aaa": 5}


def lexicon(**changes: object) -> Lexicon:
    values: dict[str, object] = {"characters": CHARACTERS, "words": WORDS, "max_characters": 5}
    return Lexicon(**{**values, **changes})  # type: ignore[arg-type]


def test_the_marks_of_a_word_are_swapped_as_in_training() -> None:
    assert lexicon().encode(["ab"], 5).tolist() == [[9, 0, 1, 8, 7]]


def test_words_are_cut_at_code_points_for_characters_and_whole_words() -> None:
    alphabet = lexicon()
    assert alphabet.encode(["天天天天a"], 5).tolist() == [[9, 3, 3, 3, 8]]
    assert alphabet.lengths(["", "天", "天天天天a"]) == [2, 3, 5]
    assert alphabet.word_ids(["aaaaaa", "abc"]).tolist() == [5, 4]


def test_unknown_characters_and_words_have_their_own_rows() -> None:
    assert lexicon().encode(["xa"], 5).tolist() == [[9, 6, 0, 8, 7]]
    assert lexicon().word_ids(["xa", "ABC"]).tolist() == [0, 0]


def test_boundaries_are_one_character_and_other_names_are_spelt() -> None:
    alphabet = lexicon(max_characters=9)
    assert alphabet.encode(["<bos>", "<eos>"], 4).tolist() == [[9, 4, 8, 7], [9, 5, 8, 7]]
    assert alphabet.lengths(["<bos>", "<pad>"]) == [3, 7]
    assert alphabet.encode(["<pad>"], 9).tolist() == [[9, 6, 6, 0, 6, 6, 8, 7, 7]]
    assert alphabet.word_ids(["<pad>", "<bos>"]).tolist() == [3, 1]


def test_an_input_may_be_missing() -> None:
    spelt, whole = lexicon(words={}), lexicon(characters={})
    assert (spelt.size, spelt.word_count) == (10, 0)
    assert (whole.size, whole.word_count) == (0, 6)
