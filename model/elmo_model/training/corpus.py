"""The corpus: text encoded once as numbers of words, then mapped into memory."""

import hashlib
import json
import logging
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from glob import glob
from itertools import islice
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from elmo_model.files.atomic import write_bytes
from elmo_model.text.alphabets.vocabulary import BEGIN, END
from elmo_model.text.lines import lines_of
from elmo_model.training import TrainingError
from elmo_model.training.vocabulary import Vocabulary
from elmo_model.validation import parsed

_READ_FIRST = 100  # sentences of each shard that are read before the first one is encoded
_BLOCK = 1 << 20  # numbers written or counted at once; bounds memory

_ABOUT, _WORDS, _LENGTHS, _TOKENS = "corpus.json", "words.utf8", "lengths.i32", "tokens.i32"
"""The files of an encoded corpus: the first is written last."""

Numbers = NDArray[np.int64]
"""Corpus numbers of words, counts of them, and places in the corpus."""

File = tuple[str, int, int]
"""Name, size in bytes and modification time in ns of a file of text."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Sentences as numbers of words, one after another, each with its two boundary words.

    `tokens` is mapped from the disk; sentence s is tokens[starts[s]:starts[s + 1]]. `words` are the
    distinct words in order of appearance, `<S>` and `</S>` first, and `counts` their occurrences.
    `files` lists the shards, whose sentences follow each other, and `shards` their sentences.
    """

    tokens: NDArray[np.int32]
    starts: Numbers
    words: tuple[str, ...]
    counts: Numbers
    files: tuple[File, ...]
    shards: tuple[int, ...]

    @property
    def sentences(self) -> int:
        """Sentences of all shards."""
        return len(self.starts) - 1

    @property
    def pairs(self) -> int:
        """Predictions of one direction in one epoch: n + 1 for a sentence of n tokens."""
        return len(self.tokens) - self.sentences

    @property
    def digest(self) -> str:
        """SHA-256 of the sentences in their order, 12 hexadecimal digits."""
        found = hashlib.sha256("\n".join(self.words).encode())
        for numbers in (self.starts, self.tokens):
            found.update(numbers.data)
        return found.hexdigest()[:12]

    def vocabulary(self, size: int) -> Vocabulary:
        """Return the most frequent words."""
        return Vocabulary.of(zip(self.words, self.counts.tolist(), strict=True), size)

    @classmethod
    def open(cls, folder: Path) -> Self | None:
        """Map a folder that `encode` wrote; None where it is incomplete or of another form."""
        try:
            about = parsed(_About, (folder / _ABOUT).read_text(encoding="utf-8"))
            words = (folder / _WORDS).read_text(encoding="utf-8").split("\n")[:-1]
            lengths = np.fromfile(folder / _LENGTHS, dtype=np.int32)
            tokens = np.memmap(folder / _TOKENS, dtype=np.int32, mode="r")
            counts = np.zeros(len(words), dtype=np.int64)
            for start in range(0, len(tokens), _BLOCK):
                counts += np.bincount(tokens[start : start + _BLOCK], minlength=len(words))
        except (OSError, ValueError):
            return None
        starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        if starts[-1] != len(tokens) or sum(about.sentences) != len(lengths):
            return None
        return cls(tokens, starts, tuple(words), counts, about.files, about.sentences)


def find_shards(patterns: Sequence[str]) -> list[Path]:
    """Return the files that match the paths and patterns of `glob`, each once, sorted by name.

    `**` stands for any folders. Raises TrainingError for a folder, and for a pattern that matches
    no file.
    """
    found: set[Path] = set()
    for pattern in patterns:
        path = Path(pattern)
        if path.is_dir():
            raise TrainingError(
                f"{path}: is a folder, expected files of text, such as '{path / '*.txt'}'"
            )
        matches = glob(pattern, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute one
        files = [match for match in (path, *map(Path, matches)) if match.is_file()]
        if not files:
            raise TrainingError(f"{pattern}: no such file, expected text in one sentence a line")
        found.update(file.resolve() for file in files)
    return sorted(found)


def sentences_of(path: Path) -> Iterator[list[str]]:
    """Return the sentences of a text file: one per line, tokens separated by white space.

    Reads plain text, .gz, .xz and .bz2; skips lines without a token. Raises TextError for text that
    is not UTF-8 or an incomplete file.
    """
    return filter(None, map(str.split, lines_of(path)))


def encode(shards: Sequence[Path], folder: Path, done: Callable[[Path], object]) -> Corpus:
    """Encode text into `folder`, unless that holds the same files already, and map it.

    The folder belongs to one run, whose lock is held. A shard without a sentence is left out and
    logged; the first sentences of all shards are read before one is encoded. Memory holds the
    distinct words, never the text. `done` is called after every shard. Raises TextError and
    TrainingError for text that cannot be read or has no sentence, and OSError.
    """
    if not (filled := [shard for shard in shards if _has_text(shard)]):
        raise TrainingError(f"{', '.join(map(str, shards))}: holds no sentence")
    files = tuple(map(_file, filled))
    if (known := Corpus.open(folder)) is not None and known.files == files:
        return known
    folder.mkdir(parents=True, exist_ok=True)
    for name in (_ABOUT, _WORDS, _LENGTHS, _TOKENS):  # another process may have mapped them
        (folder / name).unlink(missing_ok=True)
    about = _About(files, _write(filled, folder, done))
    write_bytes(folder / _ABOUT, json.dumps(asdict(about)).encode())
    corpus = Corpus.open(folder)
    assert corpus is not None
    return corpus


def _has_text(shard: Path) -> bool:
    """Tell whether a file holds a sentence. Raises TextError where the first ones are damaged."""
    if list(islice(sentences_of(shard), _READ_FIRST)):
        return True
    _log.warning("%s: holds no sentence, and is left out", shard)
    return False


@dataclass(frozen=True, slots=True)
class _About:
    """The file corpus.json: the shards, and the sentences of each."""

    files: tuple[File, ...]
    sentences: tuple[int, ...]


class _Lexicon(dict[str, int]):
    """Maps words to numbers; a new word gets the next number."""

    def __init__(self) -> None:
        super().__init__({BEGIN: 0, END: 1})

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


def _file(path: Path) -> File:
    status = path.stat()
    return path.name, status.st_size, status.st_mtime_ns


def _write(shards: Sequence[Path], folder: Path, done: Callable[[Path], object]) -> tuple[int, ...]:
    """Encode shards one after another into the files of a folder; return the sentences of each."""
    lexicon, counts = _Lexicon(), list[int]()
    with (folder / _TOKENS).open("wb") as tokens, (folder / _LENGTHS).open("wb") as file:
        for path in shards:
            numbers, lengths = array("i"), array("i")
            for sentence in sentences_of(path):
                numbers.extend((0, *map(lexicon.__getitem__, sentence), 1))
                lengths.append(len(sentence) + 2)
                if len(numbers) >= _BLOCK:
                    numbers.tofile(tokens)
                    del numbers[:]
            numbers.tofile(tokens)
            lengths.tofile(file)
            counts.append(len(lengths))
            done(path)
    words = "".join(f"{word}\n" for word in lexicon)
    (folder / _WORDS).write_text(words, encoding="utf-8", newline="\n")
    return tuple(counts)
