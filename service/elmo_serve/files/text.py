"""The text that is embedded: a file, a part of it, standard input, or the files of a folder."""

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from elmo_model.errors import ElmoError, shown
from elmo_model.text.files import TextError, numbered_lines
from elmo_model.text.tokenizers import Tokenize
from elmo_serve.files.inputs import (
    INPUTS,
    SPLIT,
    STDIN,
    FileError,
    InputFormat,
    Sentence,
    format_of,
    split_line,
)
from elmo_serve.files.outputs.output_format import Check


@dataclass(frozen=True, slots=True)
class Survey:
    """The size of a text."""

    sentences: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive sentences of one file of a corpus.

    `file` is the path relative to the corpus, `number` counts the parts of that file. The part
    begins with sentence `first` of the file, at byte `offset` of its content, and has `sentences`
    of them, and `tokens` before a tokenizer splits them.
    """

    file: str
    number: int
    first: int
    offset: int
    sentences: int
    tokens: int

    def name(self, suffix: str) -> str:
        """Return the path of its output, relative to the folder of all outputs."""
        return part_name(self.file, self.number, suffix)


def part_name(file: str, number: int, suffix: str) -> str:
    """Return the path of a part's output, relative to the folder of all outputs."""
    return f"{file}/{number:06d}{suffix}"


@dataclass(frozen=True, slots=True)
class Text:
    """A file of sentences, or a part of one, which can be read more than once.

    `name` is its name in messages. With `keep_blank` a sentence without tokens is one like others.
    A part begins with sentence `first` of the file, counted from 0, at byte `offset` of the
    content, and has `count` sentences.
    """

    path: Path
    name: str
    form: InputFormat = INPUTS["plain"]
    keep_blank: bool = False
    first: int = 0
    offset: int = 0
    count: int | None = None

    @classmethod
    @contextmanager
    def open(cls, name: str, form: InputFormat, keep_blank: bool) -> Iterator["Text"]:
        """Open a file by its name; `-` is standard input.

        Standard input, pipes and devices can be read only once, and are copied to a temporary
        file. Raises OSError if there is no such file.
        """
        path = Path(name)
        if name != STDIN and path.is_file():
            yield cls(path, name, form, keep_blank)
            return
        with tempfile.NamedTemporaryFile(prefix="elmo-") as copy:
            if name == STDIN:
                shutil.copyfileobj(sys.stdin.buffer, copy)
            else:
                with path.open("rb") as pipe:
                    shutil.copyfileobj(pipe, copy)
            copy.flush()
            yield cls(Path(copy.name), name, form, keep_blank)

    @contextmanager
    def split(self, tokenize: Tokenize | None) -> Iterator["Text"]:
        """Split each sentence into tokens and yield the text of them, in a temporary file.

        A text is read several times, and a tokenizer is slower than reading. Without a tokenizer
        the text is this one. Raises FileError for a sentence that cannot be split, for a format
        that has tokens already, and for a damaged file.
        """
        if tokenize is None:
            yield self
            return
        if self.form is not INPUTS["plain"]:
            raise FileError(f"{self.name}: --tokenizer splits plain text, and this has tokens")
        with tempfile.NamedTemporaryFile(prefix="elmo-") as copy:
            for number, sentence in enumerate(self.sentences(), self.first + 1):
                try:
                    copy.write(split_line(sentence.text, tokenize))
                except FileError as error:
                    raise FileError(f"{self.name}: {self.form.unit} {number}: {error}") from error
            copy.flush()
            yield replace(self, path=Path(copy.name), form=SPLIT, offset=0)

    def sentences(self) -> Iterator[Sentence]:
        """Yield the sentences from the beginning. Raises FileError for a damaged file."""
        yield from self._read(_Lines(self.path, self.offset))

    def survey(self, check: Check) -> Survey:
        """Read the whole text once, before anything is computed.

        Raises FileError for blank lines, and for sentences that `check` refuses.
        """
        sentences = tokens = 0
        for number, sentence in self.numbered():
            try:
                check(sentence)
            except FileError as error:
                place = f"{self.name}: {self.form.unit} {number}, {shown(sentence.text)},"
                raise FileError(f"{place} {error}") from error
            sentences += 1
            tokens += len(sentence.tokens)
        return Survey(sentences, tokens)

    def parts(self, most: int) -> Iterator[Part]:
        """Yield parts of `most` sentences at most, in order; their file has the name of this text.

        Raises FileError for blank lines, and for a damaged file.
        """
        lines = _Lines(self.path, looks_ahead=self.form.looks_ahead)
        offset = first = number = tokens = end = 0
        for end, sentence in self.numbered(lines):
            tokens += len(sentence.tokens)
            if end - first == most:
                yield Part(self.name, number, first, offset, most, tokens)
                number, first, offset, tokens = number + 1, end, lines.consumed, 0
        if end > first:
            yield Part(self.name, number, first, offset, end - first, tokens)

    def digest(self) -> str:
        """Return the SHA-256 of the bytes of the file."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def numbered(self, lines: "_Lines | None" = None) -> Iterator[tuple[int, Sentence]]:
        """Yield the sentences as `sentences` does, or of `lines`, with their numbers from 1.

        Raises FileError in the end if some were blank, with the number of the first one.
        """
        lines = lines or _Lines(self.path, self.offset)
        blanks = first = 0
        number = self.first
        for number, sentence in enumerate(self._read(lines), self.first + 1):
            if sentence.tokens or self.keep_blank or self.form.may_be_empty:
                yield number, sentence
            else:
                blanks, first = blanks + 1, first or number
        if blanks:
            more = f" and {blanks - 1} more" if blanks > 1 else ""
            raise FileError(
                f"{self.name}: no tokens in {self.form.unit} {first}{more} of {number}; "
                "`elmo embed --keep-blank-lines` keeps them, `--input-format conll` reads columns"
            )

    def _read(self, lines: "_Lines") -> Iterator[Sentence]:
        """Yield the sentences of lines; turn the errors of readers into FileErrors with our name.

        Raises FileError if a part has fewer sentences than were counted.
        """
        found = 0
        try:
            for sentence in islice(self.form.read(lines), self.count):
                found += 1
                yield sentence
        except TextError as error:
            raise FileError(f"{self.name}{str(error).removeprefix(str(self.path))}") from error
        except ElmoError as error:  # of the reader of a format
            raise FileError(f"{self.name}: {error}") from error
        if self.count is not None and found != self.count:
            raise FileError(f"{self.name} changed while it was read; start again")


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

        A corpus of one file has its name alone. Raises FileError for a name that is not UTF-8.
        """
        if self.root.is_file():
            return [self.root.name]
        paths = (path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file())
        files = sorted(
            path.as_posix() for path in paths if not any(p.startswith(".") for p in path.parts)
        )
        for file in files:
            try:
                file.encode()
            except UnicodeEncodeError:
                raise FileError(f"{self.root}: the name {shown(file)} is not UTF-8") from None
        return files

    def text(self, file: str) -> Text:
        """Return the text of one of the files."""
        path = self.root if self.root.is_file() else self.root / file
        return Text(path, str(path), self.form(file), self.keep_blank)

    def part(self, part: Part) -> Text:
        """Return the text of a part."""
        whole = self.text(part.file)
        return replace(whole, first=part.first, offset=part.offset, count=part.sentences)

    def parts(self, most: int) -> Iterator[Part]:
        """Yield the parts of all files, as `Text.parts`."""
        for file in self.files:
            for part in self.text(file).parts(most):
                yield replace(part, file=file)

    def digest(self) -> str:
        """Return the SHA-256 of the names and the bytes of all files."""
        whole = hashlib.sha256()
        for file in self.files:
            whole.update(f"{self.text(file).digest()} {file}\n".encode())
        return whole.hexdigest()


class _Lines:
    """The lines of a text file from a byte on; `consumed` counts the bytes of sentences.

    It is the byte up to the next line, or that of the last line for a reader that `looks_ahead`,
    which has read it and not yet used it.
    """

    def __init__(self, path: Path, offset: int = 0, *, looks_ahead: bool = False) -> None:
        self._path = path
        self._looks_ahead = looks_ahead
        self.consumed = offset

    def __iter__(self) -> Iterator[str]:
        end = self.consumed
        for _, data, line in numbered_lines(self._path, self.consumed):
            begin, end = end, end + len(data)
            self.consumed = begin if self._looks_ahead else end
            yield line
