"""CoNLL-U: a token a line, its form in the second column, a blank line after each sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from elmo_serve.files.sentence import FileError, Sentence


def read(lines: Iterable[str]) -> Iterator[Sentence]:
    """Yield every sentence; comments, ranges (1-2) and empty nodes (1.1) are no tokens.

    Raises FileError for a line that is none of them.
    """
    tokens: list[str] = []
    is_inside = False
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if not text.strip():
            if is_inside:
                yield _sentence(tokens)
            tokens, is_inside = [], False
        elif not text.startswith("#"):
            columns = text.split("\t")
            if len(columns) < 2 or not columns[1]:
                raise FileError(f"line {number} is {text!r:.60}: a token has an id, a TAB, a form")
            is_inside = True
            if "-" not in columns[0] and "." not in columns[0]:
                tokens.append(columns[1])
    if is_inside:
        yield _sentence(tokens)


def _sentence(tokens: list[str]) -> Sentence:
    return Sentence(" ".join(tokens), tokens)
