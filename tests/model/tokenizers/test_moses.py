"""Moses' rules, without escapes, by language."""

from elmo_model.tokenizers.moses import MosesTokenizer


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
