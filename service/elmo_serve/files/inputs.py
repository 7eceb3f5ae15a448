"""Formats of input files: lines to sentences, and the table of them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final, Literal

import orjson

from elmo_model.errors import ElmoError, counted, shown
from elmo_model.text import conll, fasta
from elmo_model.text.files import COMPRESSIONS
from elmo_model.text.tokenizers import Tokenize, TokenizeError


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
    others where it `may_be_empty`. A reader that `looks_ahead` takes one line beyond the sentence
    that it yields; the others take none.
    """

    read: Callable[[Iterable[str]], Iterator[Sentence]]
    unit: str = "line"
    endings: tuple[str, ...] = ()
    may_be_empty: bool = False
    looks_ahead: bool = False


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

    Raises FileError where the first column is taken and numbers the words of the first sentence.
    """

    def read(lines: Iterable[str]) -> Iterator[Sentence]:
        is_checked = column is not None
        for words in conll.read(lines, [column or 0]):
            tokens = [token for (token,) in words]
            if not is_checked and tokens[1:] and tokens == [str(n + 1) for n in range(len(tokens))]:
                raise FileError("the first column numbers the words: --column names another")
            is_checked = True
            yield Sentence(" ".join(tokens), tokens)

    return InputFormat(read, "sentence", (".conll",))


RESIDUES: Final = frozenset("ACDEFGHIKLMNPQRSTVWYUOBZX")
"""The letters of proteins: 20 amino acids, U and O, and B, Z, X for those in doubt. SeqVec and
catELMo were trained on these."""

Unknown = Literal["keep", "x", "refuse"]
UNKNOWN: Final[tuple[Unknown, ...]] = ("keep", "x", "refuse")
"""What becomes of a letter outside `RESIDUES`."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How a record of FASTA becomes a sentence: values.

    `upper` makes letters upper case, `letters_only` refuses all that is no letter of ASCII. With a
    `split_char` the text of the record is field `field` of the header between these characters,
    from 0, or the whole header for -1, as in the command `seqvec`; otherwise it is the header.
    """

    upper: bool = False
    letters_only: bool = False
    unknown: Unknown = "keep"
    split_char: str = ""
    field: int = 1

    @property
    def form(self) -> InputFormat:
        """FASTA read by these rules."""
        return replace(INPUTS["fasta"], read=self.read)

    def read(self, lines: Iterable[str]) -> Iterator[Sentence]:
        """Yield a sentence for each record. Raises FileError for one that the rules refuse."""
        for number, (header, sequence) in enumerate(fasta.read(lines), 1):
            try:
                found = Sentence(self._text(header), list(self._letters(sequence)))
            except FileError as error:
                raise FileError(f"record {number}, {shown(header)}, {error}") from error
            yield found

    def _text(self, header: str) -> str:
        if not self.split_char:
            return header
        whole = header.replace(">", "").strip()
        fields = whole.split(self.split_char)
        if self.field >= len(fields):
            found = f"{counted(len(fields), 'field')} between {self.split_char!r}"
            raise FileError(f"has {found}, no --id {self.field}; --id -1 takes the whole header")
        return whole if self.field < 0 else fields[self.field]

    def _letters(self, sequence: str) -> str:
        letters = sequence.upper() if self.upper else sequence
        foreign = set(letters) - RESIDUES
        if foreign and self.unknown == "x":
            return letters.translate(dict.fromkeys(map(ord, foreign), "X"))
        if self.unknown != "refuse":
            foreign = {each for each in foreign if not (each.isascii() and each.isalpha())}
        if foreign and (self.letters_only or self.unknown == "refuse"):
            allowed = "".join(sorted(RESIDUES)) if self.unknown == "refuse" else "a to z, A to Z"
            names = ", ".join(map(repr, sorted(foreign)))
            hint = "--unknown x reads others as X"
            if letters.endswith("*"):
                hint = r"a stop codon is no residue, `sed 's/\*$//'` deletes it"
            raise FileError(f"holds {names}, expected {allowed}; {hint}")
        return letters


def _split(lines: Iterable[str]) -> Iterator[Sentence]:
    """Yield the sentences of lines that `split_line` made."""
    for line in lines:
        text, tokens = orjson.loads(line)
        yield Sentence(text, tokens)


def split_line(text: str, split: Tokenize) -> bytes:
    """Return a text and its tokens as a line of JSON. Raises FileError if it cannot be split."""
    try:
        tokens = split(text).tokens
    except TokenizeError as error:
        raise FileError(str(error)) from error
    return orjson.dumps((text, tokens), option=orjson.OPT_APPEND_NEWLINE)


INPUTS = {
    "plain": InputFormat(_plain),
    "tab": InputFormat(_tab),
    "conllu": InputFormat(_conllu, "sentence", (".conllu",)),
    "conll": column_of(None),
    "fasta": InputFormat(Rules().read, "record", (".fasta", ".fa", ".faa", ".fas"), True, True),
}

SPLIT = InputFormat(_split)
"""Text that a tokenizer has split, in the temporary file of a run."""


TABLES: Final = (".csv", ".tsv", ".jsonl")
"""Endings of tables, whose lines are read as sentences: commands say so."""


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
