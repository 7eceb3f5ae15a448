"""The records of FASTA as the text of a run: letters that no protein has, records that repeat."""

from __future__ import annotations

import io
import sys
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Final

from elmo_model.errors import counted
from elmo_model.text.files import TextError, lines_of
from elmo_model.text.tokenizers import Tokenize
from elmo_serve.files.inputs import (
    INPUTS,
    RESIDUES,
    FileError,
    Rules,
    Sentence,
    Unknown,
    input_format,
)
from elmo_serve.files.outputs.output_format import Check, Repeats
from elmo_serve.files.text import STDIN, Corpus, Survey, Text, digest_of, surveyed

_LETTERS_SHOWN = 10  # letters that a note names

_REPEATS: Final[dict[Repeats, str]] = {
    "id": "left out: a later record has the same id",
    "sequence": "with the sequence of another: it is written once",
}


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
    def read(cls, name: str, texts: Sequence[Text], rules: Rules, repeats: Repeats = "") -> Records:
        """Read all records once, to count letters outside `RESIDUES` and records that repeat.

        It keeps a hash for each record, not the records. Raises FileError for a record that the
        rules refuse, and where there is none.
        """
        foreign: Counter[str] = Counter()
        hashes = array("q")
        # Letters that are read as X are counted before.
        kept = replace(rules, unknown="keep", letters_only=False)
        checked = kept if rules.unknown == "x" else rules
        for text in texts:
            for each in replace(text, form=checked.form).sentences():
                for letter in set(each.tokens) - RESIDUES:
                    foreign[letter] += each.tokens.count(letter)
                hashes.append(hash(each.text if repeats == "id" else tuple(each.tokens)))
        if not hashes:
            raise FileError(f"{name}: holds no record, expected FASTA")
        earlier = _earlier(hashes) if repeats else []
        notes = _note_of_letters(name, foreign, rules.unknown)
        if earlier:
            notes.append(f"{name}: {counted(len(earlier), 'record')} {_REPEATS[repeats]}")
        skipped = frozenset(earlier if repeats == "id" else ())
        own = tuple(replace(text, form=rules.form) for text in texts)
        return cls(name, own, skipped, tuple(notes))

    @classmethod
    @contextmanager
    def open(cls, name: str, rules: Rules, repeats: Repeats = "") -> Iterator[Records]:
        """Open a file as `Text.open` does, or the FASTA below a folder, and read it as `read`."""
        if Path(name).is_dir():
            yield cls.read(name, fasta_files(Path(name)), rules, repeats)
            return
        with Text.open(name, rules.form, keep_blank=True) as text:
            yield cls.read(name, [text], rules, repeats)

    @contextmanager
    def split(self, _tokenize: Tokenize | None) -> Iterator[Records]:
        """Yield the records, which are letters already, where `Text.split` yields tokens."""
        yield self

    def sentences(self) -> Iterator[Sentence]:
        """Yield the records from the beginning, without those that are skipped."""
        records = chain.from_iterable(text.sentences() for text in self.texts)
        return (each for number, each in zip(count(), records) if number not in self.skipped)

    def survey(self, check: Check) -> Survey:
        """Read all records, before anything is computed. Raises FileError as `Text.survey` does."""
        return surveyed(self.texts, check, self.skipped)

    def digest(self) -> str:
        """Return the SHA-256 of the bytes of the file, or of the names and bytes of the files."""
        return self.texts[0].digest() if len(self.texts) == 1 else digest_of(self.texts)


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


def fasta_files(folder: Path) -> list[Text]:
    """Return the files of FASTA below a folder, by their endings or with `fasta` in their names."""
    corpus = Corpus(folder)
    names = (name for name in corpus.files if input_format(name) == "fasta" or "fasta" in name)
    found = [*map(corpus.text, names)]
    if not found:
        endings = ", ".join(INPUTS["fasta"].endings)
        raise FileError(f"{folder}: holds no FASTA, expected files that end in one of {endings}")
    return found


def _note_of_letters(name: str, foreign: Counter[str], unknown: Unknown) -> list[str]:
    """Return one line for letters outside `RESIDUES`, if there are any."""
    if not foreign:
        return []
    shown = ", ".join(f"{each!r} {times:,}" for each, times in foreign.most_common(_LETTERS_SHOWN))
    is_lower = any(letter.islower() and letter.upper() in RESIDUES for letter in foreign)
    upper = "--upper reads lower case as upper case, " if is_lower else ""
    done = "read as X" if unknown == "x" else f"kept; {upper}--unknown x reads them as X"
    none = f"{name}: {len(foreign)} letters are none of the {len(RESIDUES)} of proteins"
    return [f"{none}: {shown}: {done}"]


def _earlier(hashes: array[int]) -> list[int]:
    """Return the places of all hashes that come again later."""
    import numpy as np  # noqa: PLC0415 - the command line imports this module without it

    backwards = np.frombuffer(hashes, np.int64)[::-1]
    _, kept = np.unique(backwards, return_index=True)
    is_earlier = np.ones(len(hashes), bool)
    is_earlier[len(hashes) - 1 - kept] = False
    return [int(place) for place in np.flatnonzero(is_earlier)]
