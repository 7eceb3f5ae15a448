"""Values in messages."""

from elmo_model.errors import shown


def test_text_that_is_cut_has_a_mark_and_its_quotes() -> None:
    assert shown("a\tb") == r"'a\tb'"
    assert shown("abcd", 4) == "'abcd'"
    assert shown("abcde", 4) == "'abcd...'"
    assert shown([1, 2, 3], 4) == "[1, ..."
    assert shown(None) == "None"
