"""The records of FASTA as the text of a run: their ids, their letters, and those that repeat."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Final, Literal

from elmo_model.text import fasta
from elmo_model.text.tokenizers import Tokenize
from elmo_serve.files.inputs import INPUTS, FileError, InputFormat, Sentence, input_format
from elmo_serve.files.outputs.output_format import Layout, OutputFormat
from elmo_serve.files.text import Corpus, Survey, Text, surveyed
from elmo_serve.output import Output

RESIDUES: Final = frozenset("ACDEFGHIKLMNPQRSTVWYUOBZX")
"""The letters of proteins: 20 amino acids, U and O, and B, Z, X for those in doubt. SeqVec and
catELMo were trained on these."""

Unknown = Literal["keep", "x", "refuse"]
UNKNOWN: Final[tuple[Unknown, ...]] = ("keep", "x", "refuse")
"""What becomes of a letter outside `RESIDUES`."""

_LETTERS_SHOWN = 10  # letters that a note names; the others are counted


@dataclass(frozen=True, slots=True)
class Rules:
    """How a record becomes a sentence: values.

    With a `split_char` its text is field `field` of the header between these characters, from 0,
    or the whole header for -1, as in the command `seqvec`; otherwise it is the header.
    """

    upper: bool = False
    letters_only: bool = False
    unknown: Unknown = "keep"
    split_char: str = ""
    field: int = -1

    @classmethod
    def of(
        cls,
        layout: Layout,
        *,
        upper: bool | None = None,
        unknown: Unknown = "keep",
        split_char: str | None = None,
        field: int | None = None,
    ) -> Rules:
        """Return the rules of a layout; None is its own choice."""
        return cls(
            layout.upper if upper is None else upper,
            layout.letters_only,
            unknown,
            (split_char or "|") if layout.has_ids else "",
            1 if field is None else field,
        )

    @property
    def form(self) -> InputFormat:
        """FASTA read by these rules."""
        return replace(INPUTS["fasta"], read=self.read)

    def read(self, lines: Iterable[str]) -> Iterator[Sentence]:
        """Yield a sentence for each record. Raises FileError for one that the rules refuse."""
        try:
            for number, (header, sequence) in enumerate(fasta.read(lines), 1):
                try:
                    found = Sentence(self._text(header), list(self._letters(sequence)))
                except FileError as error:
                    raise FileError(f"record {number}, {header!r:.60}, {error}") from error
                yield found
        except fasta.FastaError as error:
            raise FileError(str(error)) from error

    def _text(self, header: str) -> str:
        if not self.split_char:
            return header
        whole = header.replace(">", "").strip()
        fields = whole.split(self.split_char)
        if self.field >= len(fields):
            raise FileError(
                f"has no field {self.field} between {self.split_char!r}, expected 0 to "
                f"{len(fields) - 1}; --id -1 takes the whole header"
            )
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
            raise FileError(
                f"holds {', '.join(map(repr, sorted(foreign)))}, expected {allowed}; --unknown x "
                "reads others as X"
            )
        return letters


@dataclass(frozen=True, slots=True)
class Records:
    """The records of files, one file after the other, as the text of a run.

    `skipped` are the numbers of records, from 0, that are left out, for a later one has their id.
    `notes` are lines for the user.
    """

    name: str
    texts: tuple[Text, ...]
    skipped: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()
    first: int = 0

    @classmethod
    def read(cls, name: str, texts: Sequence[Text], rules: Rules, layout: Layout) -> Records:
        """Read all records once, to count letters outside `RESIDUES` and records that repeat.

        It keeps a hash for each record, not the records. Raises FileError for a record that the
        rules refuse, and where there is none.
        """
        unknown = _UnknownLetters()
        hashes = array("q")
        counted = replace(rules, unknown="keep", letters_only=False)
        checked = rules if rules.unknown != "x" else counted
        for text in texts:
            for sentence in replace(text, form=checked.form).sentences():
                unknown.add(sentence)
                hashes.append(
                    hash(sentence.text if layout.repeats == "id" else tuple(sentence.tokens))
                )
        if not hashes:
            raise FileError(f"{name}: holds no record, expected FASTA")
        earlier = _earlier(hashes) if layout.repeats else ()
        notes = [*unknown.notes(name, rules.unknown), *_repeats(name, len(earlier), layout)]
        skipped = frozenset(earlier) if layout.repeats == "id" else frozenset()
        own = tuple(replace(text, form=rules.form) for text in texts)
        return cls(name, own, skipped, tuple(notes))

    @contextmanager
    def split(self, _tokenize: Tokenize | None) -> Iterator[Records]:
        """Yield the records, which are letters already, where `Text.split` yields tokens."""
        yield self

    def sentences(self) -> Iterator[Sentence]:
        """Yield the records from the beginning, without those that are skipped."""
        records = chain.from_iterable(text.sentences() for text in self.texts)
        return (each for number, each in zip(count(), records) if number not in self.skipped)

    def survey(self, form: OutputFormat, wanted: Output) -> Survey:
        """Read all records, before anything is computed. Raises FileError as `Text.survey` does."""
        return surveyed(self.texts, form.check(wanted), self.skipped)

    def digest(self) -> str:
        """Return the SHA-256 of the bytes of the file, or of the names and bytes of the files."""
        if len(self.texts) == 1:
            return self.texts[0].digest()
        lines = "".join(f"{text.digest()} {text.name}\n" for text in self.texts)
        return hashlib.sha256(lines.encode()).hexdigest()


def fasta_files(folder: Path) -> list[Text]:
    """Return the files of FASTA below a folder, by their endings or with `fasta` in their names."""
    corpus = Corpus(folder)
    names = (name for name in corpus.files if input_format(name) == "fasta" or "fasta" in name)
    found = [replace(corpus.text(name), name=str(folder / name)) for name in names]
    if not found:
        endings = ", ".join(INPUTS["fasta"].endings)
        raise FileError(f"{folder}: holds no FASTA, expected files that end in one of {endings}")
    return found


class _UnknownLetters:
    """Counts the letters outside `RESIDUES`; keeps the id of the first record of each."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, sentence: Sentence) -> None:
        for letter in sorted(set(sentence.tokens) - RESIDUES):
            self._counts[letter] += sentence.tokens.count(letter)
            self._first.setdefault(letter, (sentence.text.split() or [""])[0])

    def notes(self, name: str, unknown: Unknown) -> Iterator[str]:
        """Yield one line if there are any."""
        if not self._counts:
            return
        shown = [
            f"{letter!r} {times:,} (first in {self._first[letter]:.40})"
            for letter, times in self._counts.most_common(_LETTERS_SHOWN)
        ]
        more = len(self._counts) - len(shown)
        others = f" and {more} others" if more else ""
        done = "read as X" if unknown == "x" else "kept; --unknown x reads them as X"
        yield (
            f"{name}: letters that are none of the {len(RESIDUES)} of proteins: "
            f"{', '.join(shown)}{others}: {done}"
        )


def _earlier(hashes: array[int]) -> list[int]:
    """Return the places of all hashes that come again later."""
    import numpy as np  # noqa: PLC0415 - the command line knows the rules without this library

    backwards = np.frombuffer(hashes, np.int64)[::-1]
    _, kept = np.unique(backwards, return_index=True)
    is_earlier = np.ones(len(hashes), bool)
    is_earlier[len(hashes) - 1 - kept] = False
    return [int(place) for place in np.flatnonzero(is_earlier)]


def _repeats(name: str, earlier: int, layout: Layout) -> Iterator[str]:
    """Yield one line if records repeat."""
    if not earlier:
        return
    if layout.repeats == "id":
        yield f"{name}: {earlier:,} records have the id of a later one, which counts, as in seqvec"
    else:
        yield f"{name}: {earlier:,} records have the sequence of another: it is written once"
