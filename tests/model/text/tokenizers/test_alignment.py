"""Offsets of tokens that are given without them."""

import pytest

from elmo_model.text.tokenizers.tokenized import TokenizeError, blank_controls, offsets_of


def test_controls_become_spaces_one_for_one() -> None:
    assert blank_controls("a\x00b\tc\x85\u200bd\n") == "a b c \u200bd "


@pytest.mark.parametrize(
    ("text", "tokens", "offsets"),
    [
        ("", [], []),
        ("  \u00a0 ", [], []),
        ("don't", ["do", "n't"], [(0, 2), (2, 5)]),
        (" a\u3000 b", ["a", "b"], [(1, 2), (4, 5)]),
        ("aa a", ["a", "a", "a"], [(0, 1), (1, 2), (3, 4)]),
        ('"a"', ["``", "a", "''"], [(0, 1), (1, 2), (2, 3)]),
        ("``a''", ["``", "a", "''"], [(0, 2), (2, 3), (3, 5)]),
        ("x ''a''", ["x", "``", "a", "''"], [(0, 1), (2, 4), (4, 5), (5, 7)]),
    ],
)
def test_tokens_are_located_one_after_another(
    text: str, tokens: list[str], offsets: list[tuple[int, int]]
) -> None:
    assert offsets_of(text, tokens) == offsets


@pytest.mark.parametrize(
    ("text", "tokens", "message"),
    [
        ("a & b", ["a", "&amp;"], r"at character 2 the tokenizer changed '& b' to '&amp;'"),
        ("ab", ["b"], r"at character 0 the tokenizer changed 'ab' to 'b'"),
        ("a", ["a", "a"], r"at character 1 the tokenizer changed '' to 'a'"),
        ("a" * 99, ["b" * 99], r"changed 'a{20}' to 'b{20}'; send `sentences`"),
    ],
)
def test_tokens_of_another_text_are_refused(text: str, tokens: list[str], message: str) -> None:
    with pytest.raises(TokenizeError, match=message):
        offsets_of(text, tokens)
