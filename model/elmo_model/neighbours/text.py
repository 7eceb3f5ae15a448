"""The text of an index: its parts, in runs of about as many tokens, and the one that is built in.

`uses.md` in this folder states the sources and licences of the built-in text.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

from elmo_model.errors import ElmoError
from elmo_model.text.files import TextError, numbered_lines
from elmo_model.text.tokenizers import Tokenize, TokenizeError

MAX_SENTENCE_TOKENS: Final = 1_000
"""Longest sentence in tokens: that of the server's default. A longer one takes more memory."""

PART_TOKENS: Final = 262_144
"""Tokens of a part. More take more memory while they are indexed, and lose more work when the run
is killed; fewer make more parts, each of which takes a share of the time of a search
(`benchmarks/neighbours.py`)."""

BUILT_IN: Final = "uses"
"""The name of the built-in text, which is searched where no index is set: every model has the same
one, in whatever language it was trained."""

_BUILT_IN_FILE: Final = Path(__file__).with_name("uses.tsv")

_Lines = Iterator[tuple[int, bytes, str]]


class IndexFolderError(ElmoError):
    """A folder is no index, or the index does not fit; the message is one line that names it."""


@dataclass(frozen=True, slots=True)
class PartFacts:
    """The size of a part. `words` counts those that it has first, `lines` the lines of the text.

    `digest` is the SHA-256 of these lines, `files` has the size of each file in bytes.
    """

    tokens: int
    sentences: int
    words: int
    lines: int
    digest: str
    files: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TextPart:
    """The sentences of some lines that follow one another.

    `lines` and `size` count the lines and their bytes, blank ones as well; `digest` is the SHA-256
    of these bytes. `start` counts the bytes before them.
    """

    start: int
    sentences: list[list[str]]
    lines: int
    size: int
    digest: str

    @property
    def tokens(self) -> int:
        """The tokens of all sentences."""
        return sum(map(len, self.sentences))


@dataclass(frozen=True, slots=True)
class TextParts:
    """A text of one sentence a line, of which blank lines are left out, and repeated ones.

    A line that occurs a thousand times, such as a page header, would else be all that a search
    finds. `split` makes tokens of a line. A part ends with the line that fills `part_tokens`.
    """

    path: Path
    split: Tokenize
    part_tokens: int

    def size(self) -> int:
        """Return the size of the text in bytes, unpacked. Raises TextError for a damaged file."""
        return sum(len(line) for _, line, _ in numbered_lines(self.path))

    def after(self, done: Sequence[PartFacts]) -> Iterator[TextPart]:
        """Yield the parts behind those that are done.

        Raises TextError, which names the line, for a line that cannot be split or is too long, and
        IndexFolderError where the lines of the parts that are done have changed.
        """
        lines = numbered_lines(self.path)
        seen: set[bytes] = set()
        start = sum(self._skip(lines, part, seen) for part in done)
        while (found := self._part(lines, start, seen)).lines:
            start += found.size
            if found.sentences:
                yield found

    def _skip(self, lines: _Lines, part: PartFacts, seen: set[bytes]) -> int:
        """Read the lines of a part that is done, and return their bytes."""
        digest, first, last, size = hashlib.sha256(), 0, 0, 0
        for number, line, text in islice(lines, part.lines):
            digest.update(line)
            seen.add(_key(text))
            first, last, size = first or number, number, size + len(line)
        if digest.hexdigest() != part.digest:
            place = f"lines {first} to {last} have" if last else "its lines have"
            raise IndexFolderError(f"{self.path}: {place} changed since they were indexed")
        return size

    def _part(self, lines: _Lines, start: int, seen: set[bytes]) -> TextPart:
        """Read the next part, whose lines are 0 at the end of the text."""
        sentences: list[list[str]] = []
        digest, tokens, count, size = hashlib.sha256(), 0, 0, 0
        for number, line, text in lines:
            digest.update(line)
            count, size = count + 1, size + len(line)
            if (key := _key(text)) not in seen and (words := self._words(number, text)):
                sentences.append(words)
                tokens += len(words)
            seen.add(key)
            if tokens >= self.part_tokens:
                break
        return TextPart(start, sentences, count, size, digest.hexdigest())

    def _words(self, number: int, text: str) -> list[str]:
        try:
            words = list(self.split(text).tokens)
        except TokenizeError as error:
            raise TextError(f"{self.path}:{number}: {error}") from error
        if len(words) > MAX_SENTENCE_TOKENS:
            raise TextError(
                f"{self.path}:{number}: has {len(words):,} tokens and at most "
                f"{MAX_SENTENCE_TOKENS:,} are allowed: one sentence a line"
            )
        return words


def _key(text: str) -> bytes:
    """Return a hash of a line, in which white space counts as one space: as for all tokenizers."""
    return hashlib.blake2b(" ".join(text.split()).encode(), digest_size=12).digest()


@cache
def built_in_sentences() -> tuple[tuple[str, ...], ...]:
    """Return the sentences of the built-in text, which is tokenised as the Penn Treebank is."""
    lines = _BUILT_IN_FILE.read_text(encoding="utf-8").split("\n")[:-1]
    return tuple(tuple(line.split("\t")[1].split(" ")) for line in lines)


@cache
def built_in_digest() -> str:
    """Return the short SHA-256 of the built-in text, by which a stored index of it is found."""
    return hashlib.sha256(_BUILT_IN_FILE.read_bytes()).hexdigest()[:12]
