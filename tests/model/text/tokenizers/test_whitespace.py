"""Text that is tokenised already."""

from elmo_model.text.tokenizers import tokenize_whitespace


def test_white_space_of_unicode_and_controls_separate() -> None:
    assert tokenize_whitespace("a\u00a0b\x07c\tdon't. \u3000").tokens == ("a", "b", "c", "don't.")


def test_offsets_count_code_points() -> None:
    assert tokenize_whitespace("👩‍👩‍👧 é").offsets == ((0, 5), (6, 7))


def test_a_megabyte_without_a_space_is_one_token() -> None:
    assert tokenize_whitespace("x" * 1_000_000).offsets == ((0, 1_000_000),)
