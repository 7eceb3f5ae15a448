"""Tokens that are cut or hold white space are named; all others are not."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_serve.token_warnings import BILM_TOKEN_LIMIT, MOST_LISTED, TokenLimit, TokenWarnings

CHARACTERS = st.sampled_from("ab .,\t\u00a0\u3000é東\U0001f469\x07")
TOKENS = st.lists(st.text(CHARACTERS, max_size=70), max_size=8)


def warned(tokens: list[str], limit: TokenLimit | None = BILM_TOKEN_LIMIT) -> TokenWarnings:
    found = TokenWarnings()
    found.check(0, tokens, limit)
    return found


@given(TOKENS)
def test_every_token_with_white_space_and_every_cut_one_is_counted(tokens: list[str]) -> None:
    spaced = sum(any(c.isspace() for c in token) for token in tokens)

    assert warned(tokens, None).count == spaced
    cut = sum(len(token.encode()) > 48 for token in tokens)
    assert warned(tokens).count == spaced + cut
    longer = sum(len(token) > 10 for token in tokens)
    assert warned(tokens, TokenLimit(10, "characters")).count == spaced + longer


@pytest.mark.parametrize(
    ("token", "detail"),
    [
        ("The bank.", "'The bank.' has white space inside and is one token"),
        ("é" * 25, f"'{'é' * 25}' has 50 bytes of UTF-8; the model reads the first 48"),
    ],
)
def test_a_warning_names_the_token(token: str, detail: str) -> None:
    (warning,) = warned(["a", token]).listed

    assert (warning.token, warning.detail) == (1, detail)


def test_some_are_listed_and_all_are_counted() -> None:
    first, second = warned(["a b"] * 15), warned(["a b"] * 15)
    first.extend(second, range(3, 6))

    assert first.count == 30
    assert len(first.listed) == MOST_LISTED
    assert (first.listed[-1].sentence, first.listed[-1].token) == (3, 4)
    assert pickle.loads(pickle.dumps(first)).listed == first.listed
