"""One token a code point, in upper case."""

from elmo_model.text.tokenizers import tokenize_characters


def test_characters_are_tokens_in_upper_case() -> None:
    found = tokenize_characters("mK v")

    assert found.tokens == ("M", "K", "V")
    assert found.offsets == ((0, 1), (1, 2), (3, 4))


def test_upper_case_may_be_longer_than_its_character() -> None:
    found = tokenize_characters("ß\n")

    assert found.tokens == ("SS",)
    assert found.offsets == ((0, 1),)


def test_white_space_and_controls_are_no_tokens() -> None:
    assert tokenize_characters(" \t\x07\u00a0\u3000\n").tokens == ()
