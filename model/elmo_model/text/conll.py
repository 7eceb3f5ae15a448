"""Columns of CoNLL-2003 and of CoNLL-U: a token a line, a blank line after each sentence."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from elmo_model.errors import ElmoError, shown

_DOCUMENT: Final = ("-DOCSTART-", "#begin document", "#end document")
"""Lines that mark documents: of CoNLL-2003, and of CoNLL-2012."""


FORM: Final = 1
"""Column of the form of a word in CoNLL-U, counted from 0."""

CONLLU_COLUMNS: Final = 10
"""Columns of CoNLL-U. Some tools write the first two alone."""

_COMMENT: Final = re.compile(r"# ++(id |[^=\t]*[^=\s] +=( |$))")
"""`# id 5239...` of MultiCoNER, and `# key = value` of Universal NER."""

_RANGE: Final = re.compile(r"[0-9]+[-.][0-9]+")

_NUMBERS: Final = "the first column numbers the words, expected words: --column names another"

_NUMBERED_SENTENCES: Final = 3
"""Sentences whose words must be numbered before a column counts as numbers, not words. One sentence
alone may be a list of numbers."""


class ConllError(ElmoError):
    """A line that is no token; the message has its number, counted from 1."""


class Word(list[str]):
    """The columns of a word, and the number of its `line`, counted from 1."""

    __slots__ = ("line",)

    def __init__(self, columns: Iterable[str], line: int) -> None:
        super().__init__(columns)
        self.line = line


def read(
    lines: Iterable[str], columns: Sequence[int], *, is_checked: bool = False
) -> Iterator[list[Word]]:
    """Yield each sentence as a list of words, each word as its `columns`.

    Columns are counted from 0, and from the end where negative; they stand between TABs, or between
    white space in a line without TABs. Lines that mark documents are left out, and comments before
    the first word of a sentence. With `is_checked` the first of the columns must hold words: one of
    numbers or of one value alone is refused, the latter at the end. Raises ConllError, also where
    two of the columns are the same one.
    """
    sentences = _column_sentences(lines, columns)
    return _checked(sentences) if is_checked else sentences


def _column_sentences(lines: Iterable[str], columns: Sequence[int]) -> Iterator[list[Word]]:
    least = max(len(columns), *(column + 1 if column >= 0 else -column for column in columns))
    wanted = "a token and its label" if columns[1:] else f"a token in column {least}"
    tabs: int | None = None
    empty: int | None = None  # columns at the end of the first word, which all words lack then
    for sentence in _sentences(lines, _DOCUMENT):
        rows = (text for _, text in sentence if not text.startswith(("# ", "#\t")))
        tabs = next((row.count("\t") for row in rows), tabs)
        words: list[Word] = []
        for number, text in sentence:
            if not words and _is_comment(text, tabs):
                continue
            fields = text.split("\t") if "\t" in text else text.split()
            fields = [field.strip() or field.strip(" ") for field in fields]  # "\u3000" is a word
            if empty is None:
                empty = next(n for n, field in enumerate(reversed(fields)) if field)
            known = fields[: len(fields) - empty]
            chosen = [known[column] for column in columns] if len(known) >= least else [""]
            if not all(chosen) or any(fields[len(known) :]):
                raise ConllError(
                    f"line {number} is {shown(text.strip())}, expected {wanted}, columns between "
                    "TABs or spaces, or a blank line"
                )
            places = [column % len(known) for column in columns]
            if len(set(places)) < len(places):
                raise ConllError(
                    f"line {number} has the token in column {places[0]} and the label in column "
                    f"{places[1]}, counted from 0, expected two columns"
                )
            words.append(Word(chosen, number))
        if words:
            yield words


def _is_comment(text: str, tabs: int | None) -> bool:
    """Return whether a line before the first word of a sentence is a comment.

    `tabs` is the number of TABs in the lines of words, None before the first of them. `# O` in a
    file of two columns is a word.
    """
    if not text.startswith(("# ", "#\t")):
        return False
    return tabs not in (None, text.count("\t")) or _COMMENT.match(text) is not None


def _checked(sentences: Iterable[list[Word]]) -> Iterator[list[Word]]:
    """Yield sentences whose first column holds words. Raises ConllError."""
    is_numbered = list[bool]()  # of the first sentences of two words or more
    is_constant, values, count, following = True, set[str](), 0, 0
    for words in sentences:
        forms = [word[0] for word in words]
        if len(forms) > 1 and len(is_numbered) < _NUMBERED_SENTENCES:
            end = _end_of_numbers(forms, following)
            is_numbered.append(end is not None)
            following = end or 0
            if is_numbered == [True] * _NUMBERED_SENTENCES:
                raise ConllError(_NUMBERS)
        is_constant = is_constant and len(set(forms)) == 1
        values.add(forms[0])
        count += len(forms)
        yield words
    if is_numbered and all(is_numbered):
        raise ConllError(_NUMBERS)
    # The identifier of a document is the same on all lines of each sentence.
    if is_constant and (is_numbered or (len(values) == 1 and count > 1)):
        raise ConllError(
            f"the first column is {shown(min(values))} on every line of a sentence, expected "
            "words: --column names another"
        )


def _end_of_numbers(forms: Sequence[str], following: int) -> int | None:
    """Return the number after the last one if `forms` number the words of a sentence, else None.

    They count from 0, from 1, or from `following`. Ranges and empty nodes, `1-2` and `1.1`, stand
    between.
    """
    numbers = [form for form in forms if not _RANGE.fullmatch(form)]
    for first in (0, 1, following):
        if numbers and numbers == [str(first + place) for place in range(len(numbers))]:
            return first + len(numbers)
    return None


def read_conllu(lines: Iterable[str], columns: int = CONLLU_COLUMNS) -> Iterator[list[Word]]:
    """Yield each sentence of CoNLL-U as a list of words, each of at least `columns` columns.

    Comments, ranges of words such as `1-2` and empty nodes such as `1.1` are left out. A sentence
    of nothing else has no words. Raises ConllError for a line with too few columns or no form, and
    for a word whose number is not the next one, as where a blank line is missing.
    """
    every = f"{columns} columns with TABs between, the form in the second"
    expected = "an id, a TAB and a form" if columns == 2 else every
    for sentence in _sentences(lines, ("#",)):
        words: list[Word] = []
        for number, text in sentence:
            word = Word(text.split("\t"), number)
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
    """Yield the lines between blank ones, numbered from 1, but those with a `skipped` beginning.

    Raises ConllError for a line with a carriage return inside, as old Macintosh files have.
    """
    sentence: list[tuple[int, str]] = []
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if "\r" in text:
            raise ConllError(f"line {number} has \\r inside; lines end with \\n or \\r\\n")
        if text.strip():
            if not text.startswith(skipped):
                sentence.append((number, text))
        elif sentence:
            yield sentence
            sentence = []
    if sentence:
        yield sentence
