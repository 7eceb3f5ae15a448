"""The tokens of the Penn Treebank, in the characters of the text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tokenize.destructive import NLTKWordTokenizer

from elmo_model.text.tokenizers import ptb
from elmo_model.text.tokenizers.ptb import kept_words, tokenize_ptb
from elmo_model.text.tokenizers.tokenized import TokenizeError, offsets_of


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
    assert " ".join(tokenize_ptb(text).tokens) == tokens


def test_offsets_are_those_of_the_given_text() -> None:
    text = "\U0001f600 don\u2019t"

    assert tokenize_ptb(text).offsets == ((0, 1), (2, 4), (4, 7))


SAMPLES = """the The x cannot Can't don't 'tis '' " "he said" said," (a b) end. . ... ." U.S. 's
cats' x: 3:4 3,4 a,b -- a--b «x» ” “ wanna gonna 'em I'll more'n d'ye _ * a*b ?! it's. ' ''x x'' $3
<b> [ ] ` @a # é 日本 a.) b.' c." N'T 'twas '90s rock'n'roll : , ; .."""
WORDS = [*SAMPLES.split(), "", "\u00a0", "\u2003"]


@settings(max_examples=500)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=7))
def test_words_that_are_kept_give_the_tokens_of_the_rules(words: list[str]) -> None:
    """The first call applies the rules, the second one finds the words and the end."""
    text = " ".join(["The", *words])
    try:
        first = tokenize_ptb(text)
    except TokenizeError:
        return
    expected = tuple(offsets_of(text, NLTKWordTokenizer().tokenize(text)))
    assert first.offsets == expected
    assert tokenize_ptb(text).offsets == expected


def test_a_contraction_is_split_wherever_the_rules_know_its_letters() -> None:
    """They ignore case, to which the dotless i belongs; `str.lower` leaves it as it is."""
    text = "The gımme end"
    expected = tuple(offsets_of(text, NLTKWordTokenizer().tokenize(text)))
    assert len(expected) == 4
    assert tokenize_ptb(text).offsets == expected


def test_the_words_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptb, "KEPT_WORDS", 300)
    most = 0
    for number in range(10):
        tokenize_ptb("The " + " ".join(f"{number}-{index}" for index in range(100)) + " end")
        most = max(most, kept_words())
    assert 300 < most <= 300 + 101
