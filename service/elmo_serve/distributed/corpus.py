"""A corpus of files, cut into parts that are embedded independently of each other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from elmo_model.text_files import TextError, numbered_lines
from elmo_model.tokenizers import Tokenize, TokenizeError
from elmo_serve.files.inputs import InputFormat
from elmo_serve.files.sentence import FileError, Sentence


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive sentences of one file.

    `file` is the path relative to the corpus, `number` counts the parts of that file. The part
    begins with sentence `first` of the file, at byte `offset`, and has so many `sentences`, and
    `tokens` before a tokenizer splits them.
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


@dataclass(frozen=True, slots=True)
class Corpus:
    """Files below a folder, or one file.

    With `keep_blank` a sentence without tokens is one like others.
    """

    root: Path
    form: InputFormat
    keep_blank: bool = False

    @property
    def files(self) -> list[str]:
        """Return the paths of the files relative to the root, sorted; hidden ones are left out.

        A corpus of one file has its name alone.
        """
        if self.root.is_file():
            return [self.root.name]
        paths = (path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file())
        return sorted(
            path.as_posix() for path in paths if not any(p.startswith(".") for p in path.parts)
        )

    def path(self, file: str) -> Path:
        """Return the path of one of the files."""
        return self.root if self.root.is_file() else self.root / file

    def parts(self, most: int) -> Iterator[Part]:
        """Yield the parts of all files, of `most` sentences at most, in order.

        Raises FileError for a sentence without tokens, unless they are kept, and a damaged file.
        """
        for file in self.files:
            yield from self._parts_of(file, most)

    def sentences(self, part: Part, split: Tokenize | None = None) -> Iterator[Sentence]:
        """Yield the sentences of a part; `split` splits the text of each into tokens.

        Raises FileError for a damaged file, and for text that cannot be split.
        """
        lines = _Lines(self.path(part.file), part.offset)
        try:
            for sentence in islice(self.form.read(lines), part.sentences):
                if split is None:
                    yield sentence
                else:
                    yield Sentence(sentence.text, list(split(sentence.text).tokens))
        except (TokenizeError, FileError) as error:
            raise FileError(f"{part.file}: {error}") from error
        except TextError as error:
            raise FileError(str(error)) from error

    def digest(self) -> str:
        """Return the SHA-256 of the names and the bytes of all files."""
        whole = hashlib.sha256()
        for file in self.files:
            with self.path(file).open("rb") as opened:
                own = hashlib.file_digest(opened, "sha256").hexdigest()
            whole.update(f"{own} {file}\n".encode())
        return whole.hexdigest()

    def _parts_of(self, file: str, most: int) -> Iterator[Part]:
        lines = _Lines(self.path(file))
        offset = first = count = number = tokens = 0
        try:
            for place, sentence in enumerate(self.form.read(lines)):
                if not sentence.tokens and not self.keep_blank:
                    raise FileError(
                        f"no tokens in {self.form.unit} {place + 1}; --keep-blank-lines makes it "
                        "a sentence of no tokens"
                    )
                count += 1
                tokens += len(sentence.tokens)
                if count == most:
                    yield Part(file, number, first, offset, count, tokens)
                    number, first, offset = number + 1, place + 1, lines.consumed
                    count = tokens = 0
        except FileError as error:
            raise FileError(f"{file}: {error}") from error
        except TextError as error:
            raise FileError(str(error)) from error
        if count:
            yield Part(file, number, first, offset, count, tokens)


def part_name(file: str, number: int, suffix: str) -> str:
    """Return the path of a part's output, relative to the folder of all outputs."""
    return f"{file}/{number:06d}{suffix}"


class _Lines:
    """The lines of a text file from a byte on; `consumed` counts the bytes up to the next one.

    Readers of sentences take no line beyond the sentence that they yield.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._path = path
        self.consumed = offset

    def __iter__(self) -> Iterator[str]:
        for _, data, line in numbered_lines(self._path, self.consumed):
            self.consumed += len(data)
            yield line
