"""Text to numbers: shards of any size, plain or compressed, encoded once and then mapped."""

import json
import os
import shutil
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Self

import numpy as np
from numpy.typing import NDArray

from elmo_model.text_files import open_text
from elmo_model.training.vocabulary import BEGIN, END, Vocabulary

_VERSION = 1
_BLOCK = 1 << 20  # numbers that are written at once

Numbers = NDArray[np.int64]


class CorpusError(ValueError):
    """Text that cannot be read or holds nothing; the message names the file."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of text and what was in it; its time of change tells whether it is the same."""

    name: str
    bytes: int
    changed: int
    sentences: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Corpus:
    """Sentences as numbers of words, all in one row, each with its two boundary words.

    `tokens` is mapped from the disk; sentence s lies at starts[s]:starts[s + 1]. `words` are the
    distinct words in order of appearance, `<S>` and `</S>` first, `counts` how often each occurs.
    `shards` cut the sentences in the order of the files.
    """

    tokens: NDArray[np.int32]
    starts: Numbers
    words: tuple[str, ...]
    counts: Numbers
    shards: tuple[Shard, ...]

    @property
    def sentences(self) -> int:
        """Sentences of all shards."""
        return len(self.starts) - 1

    @property
    def size(self) -> int:
        """Tokens of the text, without boundaries."""
        return len(self.tokens) - 2 * self.sentences

    @property
    def pairs(self) -> int:
        """Predictions of one direction in one epoch: a sentence of n tokens has n + 1."""
        return len(self.tokens) - self.sentences

    def vocabulary(self, size: int) -> Vocabulary:
        """Return the most frequent words."""
        return Vocabulary.of(zip(self.words, self.counts.tolist(), strict=True), size)

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]]) -> Self:
        """Encode sentences that are in memory, as one shard."""
        numbers, starts, lexicon = array("i"), [0], _Lexicon()
        for sentence in sentences:
            numbers.extend(lexicon.framed(sentence))
            starts.append(len(numbers))
        tokens = np.frombuffer(numbers, dtype=np.int32)
        counts = np.bincount(tokens, minlength=len(lexicon))
        shard = Shard("", 0, 0, len(sentences), len(numbers) - 2 * len(sentences))
        return cls(tokens, np.array(starts), tuple(lexicon), counts, (shard,))

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map what `encode` wrote. Raises CorpusError where it is not whole."""
        try:
            about = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
            lengths = np.fromfile(folder / "lengths.i32", dtype=np.int32)
            words = (folder / "words.txt").read_text(encoding="utf-8").split("\n")[:-1]
            counts = np.fromfile(folder / "counts.i64", dtype=np.int64)
            tokens = np.memmap(folder / "tokens.i32", dtype=np.int32, mode="r")
        except (OSError, ValueError) as error:
            raise CorpusError(f"{folder}: is no encoded corpus: {error}") from error
        starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        if starts[-1] != len(tokens) or len(words) != len(counts):
            raise CorpusError(f"{folder}: holds {len(tokens):,} tokens, expected {starts[-1]:,}")
        shards = tuple(Shard(**shard) for shard in about["shards"])
        return cls(tokens, starts, tuple(words), counts, shards)


def find_shards(patterns: Sequence[str]) -> list[Path]:
    """Return the files that paths and patterns name, each once, by name.

    Raises CorpusError for a pattern that names nothing.
    """
    found: set[Path] = set()
    for pattern in patterns:
        path = Path(pattern)
        files = [path] if path.is_file() else _glob(path)
        if not files:
            raise CorpusError(f"{pattern}: no such file, expected text in one sentence a line")
        found.update(file.resolve() for file in files)
    return sorted(found)


def sentences_of(path: Path) -> Iterator[list[str]]:
    """Yield the sentences of a text file, one a line, tokens parted by white space.

    Plain, gz, xz and bz2 by the name's end; lines without a token are skipped. Raises TextError for
    what is no UTF-8 or is cut off.
    """
    with open_text(path) as lines:
        for line in lines:
            if words := line.split():
                yield words


def encode(
    shards: Sequence[Path], folder: Path, workers: int, done: Callable[[Path], None]
) -> Corpus:
    """Encode text into `folder`, unless it is there already, and map it.

    Memory holds the distinct words, never the text; `workers` processes read a shard each. `done`
    hears of every shard that was read. Raises CorpusError or TextError where there is nothing to
    read.
    """
    if (known := _encoded(shards, folder)) is not None:
        return known
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".corpus-", dir=folder.parent) as aside:
        whole = Path(aside) / "whole"
        whole.mkdir()
        parts = [Path(aside) / str(number) for number in range(len(shards))]
        _merge(_read_all(shards, parts, workers, done), whole)
        shutil.rmtree(folder, ignore_errors=True)
        whole.rename(folder)
    return Corpus.open(folder)


@dataclass(frozen=True, slots=True)
class _Part:
    """One shard with numbers of its own, before it is brought to those of all shards."""

    shard: Shard
    stem: Path
    words: tuple[str, ...]
    counts: Numbers


class _Lexicon(dict[str, int]):
    """Words to numbers; a new word gets the next number."""

    def __init__(self) -> None:
        super().__init__({BEGIN: 0, END: 1})

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number

    def framed(self, sentence: Sequence[str]) -> Iterator[int]:
        yield 0
        yield from map(self.__getitem__, sentence)
        yield 1


def _glob(path: Path) -> list[Path]:
    root = Path(path.anchor) if path.is_absolute() else Path()
    return [file for file in root.glob(str(path.relative_to(path.anchor))) if file.is_file()]


def _encoded(shards: Sequence[Path], folder: Path) -> Corpus | None:
    if not (folder / "corpus.json").exists():
        return None
    about = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
    found = [(each["name"], each["bytes"], each["changed"]) for each in about["shards"]]
    if about["version"] != _VERSION or found != [_signature(path) for path in shards]:
        return None
    return Corpus.open(folder)


def _signature(path: Path) -> tuple[str, int, int]:
    status = path.stat()
    return path.name, status.st_size, status.st_mtime_ns


def _read_all(
    shards: Sequence[Path], stems: Sequence[Path], workers: int, done: Callable[[Path], None]
) -> Iterator[_Part]:
    with ExitStack() as stack:
        run: Callable[..., Iterator[_Part]] = map
        if min(workers, len(shards)) > 1:
            pool = ProcessPoolExecutor(min(workers, len(shards)), mp_context=get_context("spawn"))
            run = stack.enter_context(pool).map
        for path, part in zip(shards, run(_read_shard, shards, stems), strict=True):
            done(path)
            yield part


def _read_shard(path: Path, stem: Path) -> _Part:
    lexicon, numbers, lengths = _Lexicon(), array("i"), array("i")
    tokens = 0
    with _writer(stem.with_suffix(".tokens")) as tokens_file:
        for sentence in sentences_of(path):
            numbers.append(0)
            numbers.extend(map(lexicon.__getitem__, sentence))
            numbers.append(1)
            lengths.append(len(sentence) + 2)
            if len(numbers) >= _BLOCK:
                tokens += len(numbers)
                numbers.tofile(tokens_file)
                del numbers[:]
        tokens += len(numbers)
        numbers.tofile(tokens_file)
    with _writer(stem.with_suffix(".lengths")) as lengths_file:
        lengths.tofile(lengths_file)
    if not lengths:
        raise CorpusError(f"{path}: holds no sentence")
    counts = np.zeros(len(lexicon), dtype=np.int64)
    for block in _blocks(stem):
        counts += np.bincount(block, minlength=len(lexicon))
    shard = Shard(*_signature(path), len(lengths), tokens - 2 * len(lengths))
    return _Part(shard, stem, tuple(lexicon), counts)


def _merge(parts: Iterator[_Part], folder: Path) -> None:
    lexicon, shards = _Lexicon(), []
    counts = np.zeros(0, dtype=np.int64)
    with (
        _writer(folder / "tokens.i32") as tokens_file,
        _writer(folder / "lengths.i32") as lengths_file,
    ):
        for part in parts:
            numbers = np.array([lexicon[word] for word in part.words], dtype=np.int32)
            grown = np.zeros(len(lexicon), dtype=np.int64)
            grown[: len(counts)] = counts
            grown[numbers] += part.counts
            counts = grown
            for block in _blocks(part.stem):
                numbers[block].tofile(tokens_file)
            lengths_file.write(part.stem.with_suffix(".lengths").read_bytes())
            for suffix in (".tokens", ".lengths"):
                part.stem.with_suffix(suffix).unlink()
            shards.append(asdict(part.shard))
    counts.tofile(folder / "counts.i64")
    words = "".join(f"{word}\n" for word in lexicon)
    (folder / "words.txt").write_text(words, encoding="utf-8", newline="\n")
    about = {"version": _VERSION, "shards": shards}
    (folder / "corpus.json").write_text(json.dumps(about, indent=1), encoding="utf-8")


def _blocks(stem: Path) -> Iterator[NDArray[np.int32]]:
    with stem.with_suffix(".tokens").open("rb") as file:
        while len(block := np.fromfile(file, dtype=np.int32, count=_BLOCK)):
            yield block


@contextmanager
def _writer(path: Path) -> Iterator[IO[bytes]]:
    with path.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
