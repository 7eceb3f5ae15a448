"""The tokens of the Penn Treebank, in the characters of the text."""

import pytest

from elmo_model.text.tokenizers import tokenizer


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("I don't think they can't pay.", "I do n't think they ca n't pay ."),
        ("gonna", "gon na"),
        ("I don\u2019t cannot.", "I do n\u2019t can not ."),
        ('He said "yes".', 'He said " yes " .'),
        ("a\x07b", "a b"),
    ],
)
def test_contractions_and_punctuation_are_split(text: str, tokens: str) -> None:
    assert " ".join(tokenizer("ptb")(text).tokens) == tokens


def test_offsets_are_those_of_the_given_text() -> None:
    text = "\U0001f600 don\u2019t"

    assert tokenizer("ptb")(text).offsets == ((0, 1), (2, 4), (4, 7))
