"""The parts of a text: its lines as sentences, in runs of about as many tokens."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from elmo_model.neighbours.errors import IndexFolderError
from elmo_model.neighbours.manifest import PartFacts
from elmo_model.text_files import TextError, numbered_lines
from elmo_model.tokenizers import Tokenize, TokenizeError

MOST_SENTENCE_TOKENS: Final = 1_000
"""Longest sentence in tokens: that of the server's default. A longer one takes more memory."""

_Lines = Iterator[tuple[int, bytes, str]]


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
            raise TextError(f"{self.path}, line {number}: {error}") from error
        if len(words) > MOST_SENTENCE_TOKENS:
            raise TextError(
                f"{self.path}, line {number}: has {len(words):,} tokens and at most "
                f"{MOST_SENTENCE_TOKENS:,} are allowed: one sentence a line"
            )
        return words


def _key(text: str) -> bytes:
    """Return a hash of a line, in which white space counts as one space: as for all tokenizers."""
    return hashlib.blake2b(" ".join(text.split()).encode(), digest_size=12).digest()
