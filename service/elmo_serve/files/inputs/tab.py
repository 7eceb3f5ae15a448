"""A sentence a line, tokens between TABs, which may hold spaces: ELMoForManyLangs' `plain`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from elmo_serve.files.sentence import Sentence


def read(lines: Iterable[str]) -> Iterator[Sentence]:
    """Yield a sentence for every line; a blank one has no tokens."""
    for line in lines:
        text = line.strip()
        yield Sentence(text, text.split("\t") if text else [])
