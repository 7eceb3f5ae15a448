"""The text that comes with the program: small, tokenised, of known sources."""

import re
from pathlib import Path

from elmo_model.neighbours import uses

FILE = Path(uses.__file__).with_name("uses.tsv")
SOURCES = {
    *("enwiki", "simplewiki", "gutenberg", "changelog", "openstax", "arxiv", "speech", "sgd"),
    *("digitalgov", "18f", "currentevents"),
}


def test_the_text_has_at_most_50_000_tokens() -> None:
    tokens = sum(map(len, uses.sentences()))

    assert 45_000 < tokens <= 50_000


def test_every_sentence_names_its_source() -> None:
    lines = FILE.read_text(encoding="utf-8").splitlines()

    assert {line.split(":")[0] for line in lines} == SOURCES
    assert all(re.fullmatch(r"[^\t]+\t[^\t]+", line) for line in lines)
    assert len(lines) == len(uses.sentences())


def test_no_sentence_is_there_twice_and_no_token_is_empty() -> None:
    sentences = uses.sentences()

    assert len(set(sentences)) == len(sentences)
    assert all(token and not token.isspace() for sentence in sentences for token in sentence)


def test_words_of_several_senses_have_many_uses() -> None:
    for word in ("play", "bank", "lead", "spring"):
        assert sum(word in sentence for sentence in uses.sentences()) >= 100
    assert len(uses.digest()) == 12
