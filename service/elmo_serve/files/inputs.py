"""Formats of input files: lines to sentences, and the table of them."""

import io
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from elmo_model.errors import ElmoError
from elmo_model.text import conll, fasta
from elmo_model.text.lines import COMPRESSIONS, TextError, lines_of


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a file: its text, which some output formats use as a key, and its tokens."""

    text: str
    tokens: list[str]


class FileError(ElmoError):
    """An input, an output or a combination of them that is impossible: one line for the user."""


@dataclass(frozen=True, slots=True)
class InputFormat:
    """One format.

    `read` maps the lines of a file to its sentences, and raises an ElmoError for a line that does
    not belong there. `unit` names a sentence in messages. Files whose names end in one of `endings`
    are in this format unless a command names another one. A sentence without tokens is one like
    others where it `may_be_empty`.
    """

    read: Callable[[Iterable[str]], Iterator[Sentence]]
    unit: str = "line"
    endings: tuple[str, ...] = ()
    may_be_empty: bool = False


def _plain(lines: Iterable[str]) -> Iterator[Sentence]:
    """Yield one sentence per line; tokens between white space, as in `allennlp elmo`."""
    for line in lines:
        text = line.strip()
        yield Sentence(text, text.split())


def _tab(lines: Iterable[str]) -> Iterator[Sentence]:
    """Yield one sentence per line; tokens between TABs may hold spaces: ELMoForManyLangs' plain."""
    for line in lines:
        text = line.strip()
        yield Sentence(text, text.split("\t") if text else [])


def _conllu(lines: Iterable[str]) -> Iterator[Sentence]:
    """Yield the sentences of CoNLL-U: the form of each word is a token.

    Two columns, id and form, are enough.
    """
    for words in conll.read_conllu(lines, columns=2):
        tokens = [word[conll.FORM] for word in words]
        yield Sentence(" ".join(tokens), tokens)


def column_of(column: int | None) -> InputFormat:
    """Return the format whose tokens stand in one column, counted from 0; None: in the first.

    The first column is checked: numbers of words, or a constant, are no tokens.
    """

    def read(lines: Iterable[str]) -> Iterator[Sentence]:
        for words in conll.read(lines, [column or 0], is_checked=column is None):
            tokens = [token for (token,) in words]
            yield Sentence(" ".join(tokens), tokens)

    return InputFormat(read, "sentence", (".conll",))


def _fasta(lines: Iterable[str]) -> Iterator[Sentence]:
    """Yield one sentence per record: a token is a letter of the sequence, in upper case.

    The text is the first word of the header, or the accession between its bars: `P12345` of
    `sp|P12345|NAME`.
    """
    for header, sequence in fasta.read(lines):
        first = (header.split(maxsplit=1) or [""])[0]
        fields = first.split("|")
        yield Sentence(fields[1] if len(fields) > 1 else first, list(sequence.upper()))


INPUTS = {
    "plain": InputFormat(_plain),
    "tab": InputFormat(_tab),
    "conllu": InputFormat(_conllu, "sentence", (".conllu",)),
    "conll": column_of(None),
    "fasta": InputFormat(_fasta, "record", (".fasta", ".fa", ".faa", ".fas"), True),
}

STDIN: Final = "-"
"""The name of standard input."""


def input_format(path: str) -> str:
    """Return the name of the format of a file by its ending, beside that of a compression."""
    name = PurePath(path)
    if name.suffix in COMPRESSIONS:
        name = name.with_suffix("")
    return next(
        (key for key, form in INPUTS.items() if name.suffix.lower() in form.endings), "plain"
    )


def format_of(path: str) -> InputFormat:
    """Return the format of a file by its ending."""
    return INPUTS[input_format(path)]


def begins_as_fasta(name: str) -> bool:
    """Tell whether a file or standard input begins with the `>` of a header; nothing is consumed.

    False for a terminal and for other pipes and devices, which cannot be read twice.
    """
    if name == STDIN:
        stdin = sys.stdin.buffer
        if not isinstance(stdin, io.BufferedReader) or stdin.isatty():
            return False
        return stdin.peek(1).startswith(b">")
    try:
        return Path(name).is_file() and next(lines_of(Path(name)), "").startswith(">")
    except TextError:  # the run says so
        return False
