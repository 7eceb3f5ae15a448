"""Laws of every tokenizer: offsets point at the tokens, and nothing but white space is skipped."""

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elmo_model.text.tokenizers import TOKENIZERS, TokenizeError, tokenizer

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
@settings(max_examples=100, deadline=None)
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
    with pytest.raises(TokenizeError, match="'spacy', expected one of ptb, moses, whitespace"):
        tokenizer("spacy")
