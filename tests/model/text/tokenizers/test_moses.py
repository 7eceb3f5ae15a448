"""Moses' rules, without escapes, by language."""

import sacremoses

from elmo_model.text.tokenizers.moses import MosesTokenizer


def test_punctuation_is_split_off_and_nothing_is_escaped() -> None:
    tokens = MosesTokenizer()("It's the U.S. (cheap) & good.").tokens

    assert " ".join(tokens) == "It 's the U.S. ( cheap ) & good ."


def test_languages_have_rules_of_their_own() -> None:
    assert MosesTokenizer("fr")("l'eau").tokens == ("l'", "eau")
    assert MosesTokenizer("en")("l'eau").tokens == ("l", "'eau")


def test_an_unknown_language_has_the_abbreviations_of_english() -> None:
    tokens = MosesTokenizer("xx")("Mr. Brown's l'eau.").tokens

    assert " ".join(tokens) == "Mr. Brown ' s l ' eau ."


def test_a_control_character_separates_and_offsets_stay() -> None:
    found = MosesTokenizer()("a\x07b")

    assert (found.tokens, found.offsets) == (("a", "b"), ((0, 1), (2, 3)))


def test_words_with_full_stops_make_no_set_of_all_letters() -> None:
    """The library makes one for each such word, 0.6 ms: 64,000 characters of them held 8 s."""
    text = "The U.S. said No. 5, etc. and a. b. C."
    library, ours = sacremoses.MosesTokenizer("en"), MosesTokenizer("en")
    ours._moses.IsAlpha = ours._moses.IsLower = None

    assert list(ours(text).tokens) == library.tokenize(text, escape=False)
