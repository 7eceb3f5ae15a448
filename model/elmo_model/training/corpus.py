"""The corpus: text encoded once as numbers of words, then mapped into memory."""

import hashlib
import json
import logging
import shutil
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from glob import glob
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from elmo_model.files.atomic import publish
from elmo_model.files.locks import locked_file
from elmo_model.text.alphabets.vocabulary import BEGIN, END
from elmo_model.text.lines import lines_of
from elmo_model.training import TrainingError
from elmo_model.training.vocabulary import Vocabulary
from elmo_model.validation import parsed

_VERSION = 1
_READ_FIRST = 100  # sentences of each shard that are read before the first one is encoded
_BLOCK = 1 << 20  # numbers written at once; bounds memory

_FILES = frozenset({"corpus.json", "counts.i64", "lengths.i32", "tokens.i32", "words.txt"})
"""The files of an encoded corpus: a folder with any other file is never replaced."""

Ids = NDArray[np.int64]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of text: size in bytes, modification time in ns, and what it holds."""

    name: str
    bytes: int
    changed: int
    sentences: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Corpus:
    """Sentences as numbers of words, one after another, each with its two boundary words.

    `tokens` is mapped from the disk; sentence s is tokens[starts[s]:starts[s + 1]]. `words` are the
    distinct words in order of appearance, `<S>` and `</S>` first, and `counts` their occurrences.
    `shards` lists the files, whose sentences follow each other.
    """

    tokens: NDArray[np.int32]
    starts: Ids
    words: tuple[str, ...]
    counts: Ids
    shards: tuple[Shard, ...]

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
    def open(cls, folder: Path) -> Self:
        """Map a folder that `encode` wrote. Raises TrainingError if it is incomplete."""
        shards = _about(folder).shards
        try:
            lengths = np.fromfile(folder / "lengths.i32", dtype=np.int32)
            words = (folder / "words.txt").read_text(encoding="utf-8").split("\n")[:-1]
            counts = np.fromfile(folder / "counts.i64", dtype=np.int64)
            tokens = np.memmap(folder / "tokens.i32", dtype=np.int32, mode="r")
        except (OSError, ValueError) as error:
            raise TrainingError(f"{folder}: is no encoded corpus: {error}") from error
        starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        if starts[-1] != len(tokens) or len(words) != len(counts):
            raise TrainingError(f"{folder}: holds {len(tokens):,} tokens, expected {starts[-1]:,}")
        return cls(tokens, starts, tuple(words), counts, shards)


def refuse_shard(heldout: Path, shards: Sequence[Path]) -> None:
    """Raise TrainingError for a held-out text that is one of the shards, or has the same bytes."""
    size = heldout.stat().st_size
    for shard in shards:
        has_size = shard.stat().st_size == size
        if shard.samefile(heldout) or (has_size and _file_digest(shard) == _file_digest(heldout)):
            raise TrainingError(
                f"{heldout}: is the same text as {shard}, which is trained on; expected a text of "
                "its own"
            )


def _file_digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


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


def encode(shards: Sequence[Path], folder: Path, done: Callable[[Path], None]) -> Corpus:
    """Encode text into `folder`, unless that holds it already, and map it.

    A shard without a sentence is left out and logged; the first sentences of all shards are read
    before one is encoded. Memory holds the distinct words, never the text. `done` is called after
    every shard. Another run that encodes into the folder is
    waited for. Raises TrainingError or TextError for text that cannot be read, and TrainingError
    for a folder that holds anything else than an encoded corpus.
    """
    if not (filled := [shard for shard in shards if _has_text(shard)]):
        raise TrainingError(f"{', '.join(map(str, shards))}: holds no sentence")
    shards = filled
    if (known := _encoded(shards, folder)) is not None:
        return known
    _refuse_foreign(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked_file(folder.with_name(f".{folder.name}.lock")):  # it is replaced
        if (known := _encoded(shards, folder)) is not None:  # by another run meanwhile
            return known
        with tempfile.TemporaryDirectory(prefix=".corpus-", dir=folder.parent) as temporary:
            whole = Path(temporary) / "whole"
            whole.mkdir()
            _write(shards, whole, done)
            shutil.rmtree(folder, ignore_errors=True)
            publish(whole, folder)
        return Corpus.open(folder)


def _has_text(shard: Path) -> bool:
    """Tell whether a file holds a sentence. Raises TextError where the first ones are damaged."""
    if list(islice(sentences_of(shard), _READ_FIRST)):
        return True
    _log.warning("%s: holds no sentence, and is left out", shard)
    return False


@dataclass(frozen=True, slots=True)
class _About:
    """The file corpus.json."""

    version: int
    shards: tuple[Shard, ...]


class _Lexicon(dict[str, int]):
    """Maps words to numbers; a new word gets the next number."""

    def __init__(self) -> None:
        super().__init__({BEGIN: 0, END: 1})

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


def _encoded(shards: Sequence[Path], folder: Path) -> Corpus | None:
    if not (folder / "corpus.json").exists():
        return None
    about = _about(folder)
    found = [(shard.name, shard.bytes, shard.changed) for shard in about.shards]
    if about.version != _VERSION or found != [_signature(path) for path in shards]:
        return None
    try:
        return Corpus.open(folder)
    except TrainingError:
        return None  # damaged: the text is encoded again


def _about(folder: Path) -> "_About":
    try:
        return parsed(_About, (folder / "corpus.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TrainingError(
            f"{folder}: corpus.json is of no encoded corpus, expected one, or no folder: {error}"
        ) from error


def _refuse_foreign(folder: Path) -> None:
    """Raise TrainingError where an encoded corpus would take the place of files of the user."""
    if folder.exists() and not folder.is_dir():
        raise TrainingError(f"{folder}: is a file, expected a folder for the encoded text")
    names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if foreign := next((name for name in names if name not in _FILES), None):
        raise TrainingError(
            f"{folder}: holds {foreign!r}, expected an encoded corpus, or a folder that is empty "
            "or missing: the encoded text takes its place"
        )


def _signature(path: Path) -> tuple[str, int, int]:
    status = path.stat()
    return path.name, status.st_size, status.st_mtime_ns


def _write(shards: Sequence[Path], folder: Path, done: Callable[[Path], None]) -> None:
    """Encode shards one after another into the files of an empty folder."""
    lexicon, about = _Lexicon(), list[Shard]()
    tokens = folder / "tokens.i32"
    with tokens.open("wb") as tokens_file, (folder / "lengths.i32").open("wb") as lengths_file:
        for path in shards:
            about.append(_write_shard(path, lexicon, tokens_file, lengths_file))
            done(path)
    counts = np.zeros(len(lexicon), dtype=np.int64)
    with tokens.open("rb") as tokens_file:
        while len(block := np.fromfile(tokens_file, dtype=np.int32, count=_BLOCK)):
            counts += np.bincount(block, minlength=len(lexicon))
    counts.tofile(folder / "counts.i64")
    words = "".join(f"{word}\n" for word in lexicon)
    (folder / "words.txt").write_text(words, encoding="utf-8", newline="\n")
    text = json.dumps(asdict(_About(_VERSION, tuple(about))), indent=1)
    (folder / "corpus.json").write_text(text, encoding="utf-8")


def _write_shard(
    path: Path, lexicon: _Lexicon, tokens_file: BinaryIO, lengths_file: BinaryIO
) -> Shard:
    numbers, lengths, tokens = array("i"), array("i"), 0
    for sentence in sentences_of(path):
        numbers.extend((0, *map(lexicon.__getitem__, sentence), 1))
        lengths.append(len(sentence) + 2)
        tokens += len(sentence)
        if len(numbers) >= _BLOCK:
            numbers.tofile(tokens_file)
            del numbers[:]
    numbers.tofile(tokens_file)
    lengths.tofile(lengths_file)
    return Shard(*_signature(path), len(lengths), tokens)
