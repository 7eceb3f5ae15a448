"""Tokenizers: offsets point at the tokens, and nothing but white space is skipped."""

import unicodedata

import pytest
import sacremoses
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elmo_model.text.tokenizers import (
    TOKENIZERS,
    TokenizeError,
    raw_note,
    tokenize_characters,
    tokenize_whitespace,
    tokenizer,
)
from elmo_model.text.tokenizers.moses import MosesTokenizer
from elmo_model.text.tokenizers.tokenized import offsets_of

SAMPLES = """
The bank don't don\u2019t can't cannot gonna U.S. e.g. $5.50 3,000.00 "quoted" 'single' ``x''
(a) [b] «hi» „so“ … ... -- — rock'n'roll o'clock 10:30 50% a/b c&d <b> &amp; @x #y
http://a.b/c?d=e Zürich naïve 東京都 สวัสดี مرحبا שלום हिन्दी 👩\u200d👩\u200d👧 🇩🇪 e\u0301 \u200b
\ufeff ß İ ŉ \x07 DOTMULTI DOTDOTMULTI THISISPROTECTED000 | \\ ` ' '' " "" ''''
"""
WORDS = st.sampled_from(SAMPLES.split())
TEXTS = st.one_of(
    st.lists(WORDS, max_size=20).map(" ".join),
    st.lists(WORDS, max_size=20).map("".join),
    st.text(max_size=60),
)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(TEXTS)
@example('I don\u2019t know, "he" said.')
@example("``a\" b'' \"c``")
@example("")
@example(" \n\t ")
@settings(max_examples=100)
def test_offsets_point_at_the_tokens_and_cover_all_but_white_space(name: str, text: str) -> None:
    try:
        found = tokenizer(name)(text)
    except TokenizeError as refusal:
        assert "expected" in str(refusal) or "changed" in str(refusal)
        return

    slices = [text[start:end] for start, end in found.offsets]
    if name == "characters":
        slices = [piece.upper() for piece in slices]
    assert tuple(slices) == found.tokens
    assert all(found.tokens)
    ends = [0, *(end for _, end in found.offsets)]
    starts = [*(start for start, _ in found.offsets), len(text)]
    for end, start in zip(ends, starts, strict=True):
        skipped = text[end:start]
        assert all(c.isspace() or unicodedata.category(c) == "Cc" for c in skipped)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(TokenizeError, match="ptb, moses, whitespace"):
        tokenizer("spacy")


def test_white_space_of_unicode_and_controls_separate() -> None:
    assert tokenize_whitespace("a\u00a0b\x07c\tdon't. \u3000").tokens == ("a", "b", "c", "don't.")


def test_a_megabyte_without_a_space_is_one_token() -> None:
    assert tokenize_whitespace("x" * 1_000_000).offsets == ((0, 1_000_000),)


def test_characters_are_tokens_in_upper_case() -> None:
    found = tokenize_characters("mK v")

    assert found.tokens == ("M", "K", "V")
    assert found.offsets == ((0, 1), (1, 2), (3, 4))


@pytest.mark.parametrize(
    ("text", "tokens", "offsets"),
    [
        (" a\u3000 b", ["a", "b"], [(1, 2), (4, 5)]),
        ("aa a", ["a", "a", "a"], [(0, 1), (1, 2), (3, 4)]),
        ('"a"', ["``", "a", "''"], [(0, 1), (1, 2), (2, 3)]),
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


def test_punctuation_is_split_off_and_nothing_is_escaped() -> None:
    tokens = MosesTokenizer()("It's the U.S. (cheap) & good.").tokens

    assert " ".join(tokens) == "It 's the U.S. ( cheap ) & good ."


def test_languages_have_rules_of_their_own() -> None:
    assert MosesTokenizer("fr")("l'eau").tokens == ("l'", "eau")
    assert MosesTokenizer("en")("l'eau").tokens == ("l", "'eau")


def test_an_unknown_language_has_the_abbreviations_of_english() -> None:
    tokens = MosesTokenizer("xx")("Mr. Brown's l'eau.").tokens

    assert " ".join(tokens) == "Mr. Brown ' s l ' eau ."


def test_words_with_full_stops_make_no_set_of_all_letters() -> None:
    """The library makes one for each such word, 0.6 ms: 64,000 characters of them held 8 s."""
    text = "The U.S. said No. 5, etc. and a. b. C."
    library, ours = sacremoses.MosesTokenizer("en"), MosesTokenizer("en")
    ours._moses.IsAlpha = ours._moses.IsLower = None

    assert list(ours(text).tokens) == library.tokenize(text, escape=False)


@pytest.mark.parametrize("end", ["bank.", "bank?", 'bank."', "東京!"])
def test_a_text_whose_sentences_end_in_a_word_with_its_full_stop_is_noted(end: str) -> None:
    raw, split = ["The", end], ["The", "U.S.", "bank", "."]

    assert f"tokens such as {end!r}; if they are" in (raw_note([split, raw, raw], "split") or "")
    for sentences in ([raw, split], [[end], [], ["."]], [["A", "..."], ["B", '. "']], []):
        assert raw_note(sentences, "split") is None


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
def test_ptb_splits_contractions_and_punctuation(text: str, tokens: str) -> None:
    assert " ".join(tokenizer("ptb")(text).tokens) == tokens


def test_offsets_of_ptb_are_those_of_the_given_text() -> None:
    text = "\U0001f600 don\u2019t"

    assert tokenizer("ptb")(text).offsets == ((0, 1), (2, 4), (4, 7))
