"""Text of many scripts, for properties that must hold whatever people write."""

import unicodedata

from hypothesis import strategies as st

_SAMPLES = """
The bank can't lend; don\u2019t! gonna U.S. e.g. $5.50 3,000.00 "quoted" 'single' ``x'' (a) [b] -- …
Zürich naïve Straße İstanbul Ελληνικά Ёлка Кириллица Հայերեն ქართული አማርኛ ትግርኛ العربية مرحبا فارسی
اردو עברית ייִדיש हिन्दी मराठी বাংলা ਪੰਜਾਬੀ ગુજરાતી தமிழ் తెలుగు ಕನ್ನಡ മലയാളം සිංහල ไทย ລາວ မြန်မာ
ខ្មែរ བོད་ཡིག 東京都 한국어 조선말 ᠮᠣᠩᠭᠣᠯ ᏣᎳᎩ ᐃᓄᒃᑎᑐᑦ ⵜⴰⵎⴰⵣⵉⵖⵜ ߒߞߏ ꦗꦮ ᬩᬮᬶ ᮞᮥᮔ᮪ᮓ 𐌲𐌿𐍄 𓂀 𝒳 é e\u0301
ﷺ ŉ ﬁ ß ǆ 👩\u200d👩\u200d👧 🇩🇪 👍🏽 ❤\ufe0f \u200b \ufeff \u202eabc\u202c \u2066x\u2069 @x #y
http://a.b/c?d=e & &amp; <b> | \\ ` '' \'\'\'\'
"""
WORDS = _SAMPLES.split()

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
