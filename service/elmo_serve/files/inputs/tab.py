"""One sentence per line, tokens between TABs: ELMoForManyLangs' `plain`. Tokens may hold spaces."""

from collections.abc import Iterable, Iterator

from elmo_serve.files.sentence import Sentence


def read(lines: Iterable[str]) -> Iterator[Sentence]:
    """Yield one sentence per line; a blank line has no tokens."""
    for line in lines:
        text = line.strip()
        yield Sentence(text, text.split("\t") if text else [])
