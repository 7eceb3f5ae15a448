"""Values in messages."""

from elmo_model.errors import shown


def test_text_that_is_cut_has_a_mark_and_its_quotes() -> None:
    assert shown("a\tb") == r"'a\tb'"
    assert shown("abcd", 6) == "'abcd'"
    assert shown("abcde", 5) == "'abcd...'"
    assert shown([1, 2, 3], 4) == "[1, ...]"
    assert shown(10**9, 4) == "1000..."
    assert shown(None) == "None"


def test_a_shown_value_is_short_and_on_one_line() -> None:
    assert shown("a\nb") == r"'a\nb'"
    assert shown("\ud800") == r"'\ud800'"
    assert len(shown("\0" * 10**7)) < 80
    assert len(shown(list(range(1000)))) < 80
