"""POST /tokenize: the law of offsets for any text, the limits, and the words of its refusals."""

import unicodedata
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from elmo_model.text.tokenizers import TOKENIZERS

SAMPLES = """
The bank can't lend; don\u2019t! gonna U.S. e.g. $5.50 3,000.00 "quoted" 'single' ``x'' (a) [b] -- …
Zürich naïve Straße İstanbul Ελληνικά Ёлка Кириллица Հայերեն ქართული አማርኛ ትግርኛ العربية مرحبا فارسی
اردو עברית ייִדיש हिन्दी मराठी বাংলা ਪੰਜਾਬੀ ગુજરાતી தமிழ் తెలుగు ಕನ್ನಡ മലയാളം සිංහල ไทย ລາວ မြန်မာ
ខ្មែរ བོད་ཡིག 東京都 한국어 조선말 ᠮᠣᠩᠭᠣᠯ ᏣᎳᎩ ᐃᓄᒃᑎᑐᑦ ⵜⴰⵎⴰⵣⵉⵖⵜ ߒߞߏ ꦗꦮ ᬩᬮᬶ ᮞᮥᮔ᮪ᮓ 𐌲𐌿𐍄 𓂀 𝒳 é e\u0301
ﷺ ŉ ﬁ ß ǆ 👩\u200d👩\u200d👧 🇩🇪 👍🏽 ❤\ufe0f \u200b \ufeff \u202eabc\u202c \u2066x\u2069 @x #y
http://a.b/c?d=e & &amp; <b> | \\ ` '' \'\'\'\'
"""
WORDS = SAMPLES.split()

SPACES = st.sampled_from([" ", "", "  ", "\n", "\t", "\u00a0", "\u3000", "\u2028", "\x07", "\x00"])

TEXTS = st.one_of(
    st.text(max_size=40),
    st.lists(st.tuples(st.sampled_from(WORDS), SPACES), max_size=15).map(
        lambda pairs: "".join(word + space for word, space in pairs)
    ),
)
"""Texts that UTF-8 can write: any code points, and words of many scripts."""


def is_space(character: str) -> bool:
    """Tell whether tokenizers skip a character: white space, or a control character."""
    return character.isspace() or unicodedata.category(character) == "Cc"


ANY_TIME = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def tokenized(client: httpx.Client, *texts: str, **options: Any) -> dict[str, Any]:
    response = client.post("/tokenize", json={"text": texts, **options})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def check(text: str, tokens: list[str], offsets: list[list[int]], tokenizer: str) -> None:
    """Check that every token is its slice of the text, and that only white space is skipped."""
    slices = [text[start:end] for start, end in offsets]
    assert tokens == ([each.upper() for each in slices] if tokenizer == "characters" else slices)
    starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
    for end, start in zip([0, *ends], [*starts, len(text)], strict=True):
        assert all(map(is_space, text[end:start]))


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@given(texts=st.lists(TEXTS, min_size=1, max_size=6))
@example(texts=["", " \n", "x", "👩\u200d👩\u200d👧", "שלום עולם", "a\x00b"])
@ANY_TIME
def test_offsets_point_at_the_tokens_of_any_text(
    client: httpx.Client, tokenizer: str, texts: list[str]
) -> None:
    response = client.post("/tokenize", json={"text": texts, "tokenizer": tokenizer})
    if response.status_code == 422:
        assert tokenizer in ("ptb", "moses")
        assert "the tokenizer changed" in response.json()["detail"]
        return
    found = response.json()
    assert (response.status_code, found["tokenizer"]) == (200, tokenizer)
    for text, tokens, offsets in zip(texts, found["tokens"], found["offsets"], strict=True):
        check(text, tokens, offsets, tokenizer)


@pytest.mark.parametrize("tokenizer", ["ptb", "moses", "whitespace"])
def test_the_longest_token_that_is_allowed_has_right_offsets(
    client: httpx.Client, tokenizer: str
) -> None:
    text = "é" * 64_000
    found = tokenized(client, text, tokenizer=tokenizer)

    check(text, found["tokens"][0], found["offsets"][0], tokenizer)
