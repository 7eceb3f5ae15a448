"""CoNLL-U: one word a line in columns, a blank line after each sentence."""

from collections.abc import Iterable, Iterator

from elmo_model.errors import ElmoError, shown

FORM = 1
"""Column of the form of a word, counted from 0."""

COLUMNS = 10
"""Columns of the format. Some tools write the first two alone."""


class ConlluError(ElmoError):
    """A line that is no word; the message has its number, counted from 1."""


def read(lines: Iterable[str], columns: int = COLUMNS) -> Iterator[list[list[str]]]:
    """Yield each sentence as a list of words, each word as a list of at least `columns` columns.

    Comments, ranges of words such as `1-2` and empty nodes such as `1.1` are left out. A sentence
    of nothing else has no words. Raises ConlluError for a line with too few columns or no form, and
    for a word whose number is not the next one, as where a blank line is missing.
    """
    words: list[list[str]] = []
    is_inside = False
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if not text.strip():
            if is_inside:
                yield words
            words, is_inside = [], False
        elif not text.startswith("#"):
            word = text.split("\t")
            if len(word) < columns or not word[FORM]:
                every = f"{columns} columns with TABs between, the form in the second"
                expected = "an id, a TAB and a form" if columns == 2 else every
                count = f"{len(word)} of {columns} columns"
                fault = count if len(word) < columns else "without a form"
                raise ConlluError(f"line {number} is {shown(text)}, {fault}, expected {expected}")
            is_inside = True
            if "-" not in word[0] and "." not in word[0]:
                words.append(word)
                if word[0] != str(len(words)):
                    raise ConlluError(
                        f"line {number} has the id {shown(word[0])}, expected {len(words)}: words "
                        "are numbered from 1 in each sentence, which a blank line ends"
                    )
    if is_inside:
        yield words
