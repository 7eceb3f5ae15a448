"""Columns of tokens and labels: a token a line, a blank line after each sentence (CoNLL-2003)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from elmo_model.errors import ElmoError, shown

_DOCUMENT: Final = ("-DOCSTART-", "#begin document", "#end document")
"""Lines that mark documents: of CoNLL-2003, and of CoNLL-2012."""


class ConllError(ElmoError):
    """A line that lacks a column; the message has its number, counted from 1."""


def read(lines: Iterable[str], columns: Sequence[int]) -> Iterator[list[list[str]]]:
    """Yield each sentence as a list of words, each word as its `columns`.

    Columns are counted from 0, and from the end where negative; they stand between TABs, or between
    white space in a line without TABs. Lines that mark documents are left out. Raises ConllError.
    """
    words: list[list[str]] = []
    least = max(len(columns), *(column + 1 for column in columns))
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        fields = text.split("\t") if "\t" in text else text.split()
        if not text.strip():
            if words:
                yield words
            words = []
        elif not text.startswith(_DOCUMENT):
            if len(fields) < least or not all(fields[column] for column in columns):
                wanted = "a token and its label" if columns[1:] else f"a token in column {least}"
                raise ConllError(
                    f"line {number} is {shown(text.strip())}, expected {wanted}, columns between "
                    "TABs or spaces, or a blank line"
                )
            words.append([fields[column] for column in columns])
    if words:
        yield words
