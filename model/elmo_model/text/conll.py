"""Columns of CoNLL-2003 and of CoNLL-U: a token a line, a blank line after each sentence."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from elmo_model.errors import ElmoError, shown

_DOCUMENT: Final = ("-DOCSTART-", "#begin document", "#end document")
"""Lines that mark documents: of CoNLL-2003, and of CoNLL-2012."""


FORM: Final = 1
"""Column of the form of a word in CoNLL-U, counted from 0."""

CONLLU_COLUMNS: Final = 10
"""Columns of CoNLL-U. Some tools write the first two alone."""


class ConllError(ElmoError):
    """A line that is no token; the message has its number, counted from 1."""


def read(lines: Iterable[str], columns: Sequence[int]) -> Iterator[list[list[str]]]:
    """Yield each sentence as a list of words, each word as its `columns`.

    Columns are counted from 0, and from the end where negative; they stand between TABs, or between
    white space in a line without TABs. Lines that mark documents are left out. Raises ConllError.
    """
    least = max(len(columns), *(column + 1 for column in columns))
    for sentence in _sentences(lines, _DOCUMENT):
        words: list[list[str]] = []
        for number, text in sentence:
            fields = text.split("\t") if "\t" in text else text.split()
            if len(fields) < least or not all(fields[column] for column in columns):
                wanted = "a token and its label" if columns[1:] else f"a token in column {least}"
                raise ConllError(
                    f"line {number} is {shown(text.strip())}, expected {wanted}, columns between "
                    "TABs or spaces, or a blank line"
                )
            words.append([fields[column] for column in columns])
        yield words


def read_conllu(lines: Iterable[str], columns: int = CONLLU_COLUMNS) -> Iterator[list[list[str]]]:
    """Yield each sentence of CoNLL-U as a list of words, each of at least `columns` columns.

    Comments, ranges of words such as `1-2` and empty nodes such as `1.1` are left out. A sentence
    of nothing else has no words. Raises ConllError for a line with too few columns or no form, and
    for a word whose number is not the next one, as where a blank line is missing.
    """
    every = f"{columns} columns with TABs between, the form in the second"
    expected = "an id, a TAB and a form" if columns == 2 else every
    for sentence in _sentences(lines, ("#",)):
        words: list[list[str]] = []
        for number, text in sentence:
            word = text.split("\t")
            if len(word) < columns or not word[FORM]:
                raise ConllError(f"line {number} is {shown(text)}, expected {expected}")
            if "-" not in word[0] and "." not in word[0]:
                words.append(word)
                if word[0] != str(len(words)):
                    raise ConllError(
                        f"line {number} has the id {shown(word[0])}, expected {len(words)}: words "
                        "are numbered from 1 in each sentence, which a blank line ends"
                    )
        yield words


def _sentences(lines: Iterable[str], skipped: tuple[str, ...]) -> Iterator[list[tuple[int, str]]]:
    """Yield the lines between blank ones, numbered from 1, but those with a `skipped` beginning."""
    sentence: list[tuple[int, str]] = []
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if text.strip():
            if not text.startswith(skipped):
                sentence.append((number, text))
        elif sentence:
            yield sentence
            sentence = []
    if sentence:
        yield sentence
