"""The text that comes with the program: small, tokenised, of known sources."""

import codecs
import re
from pathlib import Path

from elmo_model.uses import text
from elmo_model.uses.text import built_in_sentences

FILE = Path(text.__file__).with_name("uses.tsv")
CARD = FILE.with_name("uses.md")
VIOLENCE = re.compile(
    r"(kill|murder|rap(e|ist)|tortur|stabb|behead|massacr|genocid|lynch|suicid|scalp|assassin"
    r"|pistol|rifle|gun|bullet|strangl|corpse|slain|slaughter)(s|d|ed|er|ers|ing|ings|ation|e|es)?"
)
# In ROT13: this repository holds no slurs.
SLURS = re.compile(
    codecs.decode(
        r"(erqfxva|vawha|fdhnj|avtt\j+|arteb|pbba|puvax|wnc|tbbx|fcvp|jrgonpx|xvxr|snttbg"
        r"|fnintr|juber|fyhg|ovgpu|phag|phax|shpx|fuvg|ergneq|pevccyr|qnexl|qnexvr|urngura)f?",
        "rot13",
    )
)
SOURCES = {
    *("enwiki", "simplewiki", "gutenberg", "changelog", "openstax", "arxiv", "speech", "sgd"),
    *("digitalgov", "currentevents"),
}


def test_every_sentence_names_its_source() -> None:
    lines = FILE.read_text(encoding="utf-8").splitlines()

    assert {line.split(":")[0] for line in lines} == SOURCES
    assert all(re.fullmatch(r"[^\t]+\t[^\t]+", line) for line in lines)
    assert len(lines) == len(built_in_sentences())


def test_the_text_has_10_000_tokens_in_different_sentences_as_its_card_says() -> None:
    sentences = built_in_sentences()
    tokens = [token for sentence in sentences for token in sentence]

    assert 9_000 < len(tokens) <= 10_000
    assert len(set(sentences)) == len(sentences)
    assert all(token and not token.isspace() for token in tokens)
    counts = f"{len(sentences):,} sentences with {len(tokens):,} tokens"
    assert CARD.read_text().split("\n")[2].startswith(counts)


def test_words_of_several_senses_have_many_uses() -> None:
    for word in ("play", "bank", "lead", "spring"):
        assert sum(word in sentence for sentence in built_in_sentences()) >= 48


def test_no_sentence_has_a_word_of_violence_or_a_slur() -> None:
    words = {token.lower() for sentence in built_in_sentences() for token in sentence}

    assert {word for word in words if VIOLENCE.fullmatch(word) or SLURS.fullmatch(word)} == set()
