"""The text that is embedded: a file, or standard input copied into one."""

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from elmo_model.text_files import TextError, numbered_lines
from elmo_model.tokenizers import Tokenize
from elmo_serve.files.inputs import INPUTS, SPLIT, InputFormat
from elmo_serve.files.inputs.split import split_lines
from elmo_serve.files.outputs.output_format import OutputFormat
from elmo_serve.files.sentence import FileError, Sentence
from elmo_serve.output import Output

STDIN = "-"

# Blank lines that a message names; the others are counted.
_BLANKS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Survey:
    """The size of a text, and the SHA-256 of its bytes."""

    sentences: int
    tokens: int
    digest: str


@dataclass(frozen=True, slots=True)
class Text:
    """A file of sentences, which can be read more than once.

    `name` is its name in messages. With `keep_blank` a sentence without tokens is one like others.
    """

    path: Path
    name: str
    form: InputFormat = INPUTS["plain"]
    keep_blank: bool = False

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
    def split(self, tokenize: Tokenize) -> Iterator["Text"]:
        """Split each line into tokens and yield the text of them, in a temporary file.

        A text is read several times, and a tokenizer is slower than reading. Raises FileError for
        a line that cannot be split, and a damaged file.
        """
        with tempfile.NamedTemporaryFile(prefix="elmo-") as copy:
            with self._named():
                copy.writelines(split_lines(self._lines(), tokenize))
            copy.flush()
            yield replace(self, path=Path(copy.name), form=SPLIT)

    def sentences(self) -> Iterator[Sentence]:
        """Yield the sentences from the beginning. Raises FileError for a damaged file."""
        with self._named():
            yield from self.form.read(self._lines())

    def survey(self, form: OutputFormat, wanted: Output) -> Survey:
        """Read the whole text once, before anything is computed.

        Raises FileError for blank lines, and for vectors and sentences that the output format
        cannot hold.
        """
        check = form.check(wanted)
        sentences = tokens = blanks = 0
        shown: list[str] = []
        for number, sentence in enumerate(self.sentences(), 1):
            if not sentence.tokens and not self.keep_blank:
                blanks += 1
                if blanks <= _BLANKS_SHOWN:
                    shown.append(str(number))
            else:
                check(number, sentence)
            sentences += 1
            tokens += len(sentence.tokens)
        if blanks:
            numbers = f"{self.form.unit}{'s' * (blanks > 1)} {', '.join(shown)}"
            more = f" and {blanks - len(shown)} more" if blanks > len(shown) else ""
            raise FileError(
                f"{self.name}: no tokens in {numbers}{more} of {sentences}; --keep-blank-lines "
                "makes each a sentence of no tokens"
            )
        with self.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Survey(sentences, tokens, digest)

    def _lines(self) -> Iterator[str]:
        return (line for _, _, line in numbered_lines(self.path))

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Turn the errors of readers into FileErrors with the name of the text."""
        try:
            yield
        except TextError as error:
            raise FileError(f"{self.name}{str(error).removeprefix(str(self.path))}") from error
        except FileError as error:
            raise FileError(f"{self.name}: {error}") from error
