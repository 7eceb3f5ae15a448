"""The text that is embedded: a file, standard input, or the files of a folder."""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final

from elmo_model.errors import ElmoError, shown
from elmo_model.text.lines import TextError, lines_of
from elmo_model.text.tokenizers import Tokenize, TokenizeError
from elmo_serve.files.inputs import (
    INPUTS,
    STDIN,
    FileError,
    InputFormat,
    Sentence,
    format_of,
)
from elmo_serve.files.outputs.output_format import Check, accept

_SAMPLE: Final = 1_000
"""Sentences of a text that are split before a run, to estimate its tokens."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The size of a text, with its tokens before a tokenizer."""

    sentences: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Text:
    """A file of sentences, which can be read more than once.

    `name` is its name in messages. With `keep_blank` a sentence without tokens is one like others.
    `tokenize` splits the sentences of plain text.
    """

    path: Path
    name: str
    form: InputFormat = INPUTS["plain"]
    keep_blank: bool = False
    tokenize: Tokenize | None = None

    @classmethod
    @contextmanager
    def open(cls, name: str, form: InputFormat, keep_blank: bool) -> Iterator["Text"]:
        """Open a file by its name; `-` is standard input.

        Standard input, pipes and devices can be read only once, and are copied to a temporary
        file. Raises OSError if there is no such file, and FileError where the copy has no room.
        """
        path = Path(name)
        if name != STDIN and path.is_file():
            yield cls(path, name, form, keep_blank)
            return
        with tempfile.NamedTemporaryFile(prefix="elmo-") as copy:
            try:
                if name == STDIN:
                    shutil.copyfileobj(sys.stdin.buffer, copy)
                else:
                    with path.open("rb") as pipe:
                        shutil.copyfileobj(pipe, copy)
                copy.flush()
            except OSError as error:
                copied = f"{name} cannot be copied to {tempfile.gettempdir()}"
                room = "TMPDIR names a folder with more room"
                raise FileError(f"{copied}: {error.strerror or error}; {room}") from error
            yield cls(Path(copy.name), name, form, keep_blank)

    def split(self, tokenize: Tokenize | None) -> "Text":
        """Return this text with a tokenizer. Raises FileError for a format that has tokens."""
        if tokenize is not None and self.form is not INPUTS["plain"]:
            raise FileError(f"{self.name}: --tokenizer splits plain text, and this has tokens")
        return replace(self, tokenize=tokenize)

    def sentences(self) -> Iterator[Sentence]:
        """Yield the sentences as they are written, before a tokenizer.

        Raises FileError, with the name of this text, for what the readers of formats refuse.
        """
        try:
            yield from self.form.read(lines_of(self.path))
        except TextError as error:
            raise FileError(f"{self.name}{str(error).removeprefix(str(self.path))}") from error
        except ElmoError as error:  # of the reader of a format
            raise FileError(f"{self.name}: {error}") from error

    def tokens(self, number: int, sentence: Sentence) -> Sentence:
        """Return a sentence with the tokens of the tokenizer; `number` counts from 1.

        Raises FileError if it cannot be split.
        """
        if self.tokenize is None:
            return sentence
        try:
            return Sentence(sentence.text, list(self.tokenize(sentence.text).tokens))
        except TokenizeError as error:
            raise FileError(f"{self.place(number)}: {error}") from error

    def place(self, number: int) -> str:
        """Return the place of a sentence for a message; `number` counts from 1."""
        return f"{self.name}: {self.form.unit} {number}"

    def checked(self, number: int, sentence: Sentence, check: Check) -> Sentence:
        """Return a sentence. Raises FileError with its place if `check` refuses it."""
        try:
            check(sentence)
        except FileError as error:
            raise FileError(f"{self.place(number)}, {shown(sentence.text)}, {error}") from error
        return sentence

    def survey(self, check: Check = accept) -> Survey:
        """Read the whole text once, before anything is computed.

        Raises FileError for blank lines, and for sentences that `check` refuses.
        """
        blanks = first = number = tokens = 0
        for number, sentence in enumerate(self.sentences(), 1):
            if not (sentence.tokens or self.keep_blank or self.form.may_be_empty):
                blanks, first = blanks + 1, first or number
                continue
            self.checked(number, sentence, check)
            tokens += len(sentence.tokens)
        if blanks:
            more = f" and {blanks - 1} more" if blanks > 1 else ""
            raise FileError(
                f"{self.name}: no tokens in {self.form.unit} {first}{more} of {number}; "
                "`elmo embed --keep-blank-lines` keeps them, `--input-format conll` reads columns"
            )
        return Survey(number, tokens)

    def ratio(self) -> float:
        """Return the tokens that the tokenizer makes of one before, by the first 1,000 sentences.

        Raises FileError for one of them that cannot be split.
        """
        if self.tokenize is None:
            return 1.0
        before = after = 0
        for number, sentence in enumerate(islice(self.sentences(), _SAMPLE), 1):
            before += len(sentence.tokens)
            after += len(self.tokens(number, sentence).tokens)
        return after / before if before else 1.0

    def digest(self) -> str:
        """Return the SHA-256 of the bytes of the file."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Corpus:
    """Files below a folder, or one file; `form` returns the format of a file of a name.

    The folder is listed once.
    """

    root: Path
    form: Callable[[str], InputFormat] = format_of
    keep_blank: bool = False

    @cached_property
    def files(self) -> Sequence[str]:
        """The paths of the files relative to the root, sorted; hidden ones are left out.

        A corpus of one file has its name alone. Links are followed, and a folder is read once.
        Raises FileError for a name that is not UTF-8 and a link that leads nowhere, OSError for a
        folder that cannot be read.
        """
        if not self.root.is_dir():
            return [self.root.name]
        files = sorted(path.relative_to(self.root).as_posix() for path in _below(self.root))
        for file in files:
            try:
                file.encode()
            except UnicodeEncodeError:
                raise FileError(f"{self.root}: the name {shown(file)} is not UTF-8") from None
        return files

    def text(self, file: str) -> Text:
        """Return the text of one of the files."""
        path = self.root / file if self.root.is_dir() else self.root
        return Text(path, str(path), self.form(file), self.keep_blank)

    def digest(self) -> str:
        """Return the SHA-256 of the names and the bytes of all files."""
        whole = hashlib.sha256()
        for file in self.files:
            whole.update(f"{self.text(file).digest()} {file}\n".encode())
        return whole.hexdigest()


def _below(root: Path) -> Iterator[Path]:
    """Yield the files of a folder and of its folders, but hidden ones."""

    def refuse(error: OSError) -> None:
        raise error

    visited: set[tuple[int, int]] = set()
    for folder, folders, names in os.walk(root, followlinks=True, onerror=refuse):
        found = Path(folder).stat()
        is_new = (found.st_dev, found.st_ino) not in visited
        visited.add((found.st_dev, found.st_ino))
        # `os.walk` goes into the folders that are left in the list.
        folders[:] = sorted(name for name in folders if is_new and not name.startswith("."))
        for path in (Path(folder, name) for name in names if is_new and not name.startswith(".")):
            if path.is_symlink() and not path.exists():
                raise FileError(f"{path} is a link to {path.readlink()}, which is not there")
            if path.is_file():
                yield path
