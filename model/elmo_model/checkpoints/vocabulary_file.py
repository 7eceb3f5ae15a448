"""The vocabulary beside a word-input model: one word a line, plain or gzipped."""

import gzip
import io
import zlib
from collections.abc import Sequence
from pathlib import PurePosixPath

from elmo_model.alphabets import AlphabetError, WordVocabulary
from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.checkpoints.source import Source, bounded

# bilm-tf's published vocabulary has 8 MB for 793,471 words.
_GREATEST = 64 << 20  # bytes
_SKIPPED = "!!!MAXTERMID"  # a line that bilm-tf passes over
_ENDINGS = (".txt", ".txt.gz")


def find(source: Source) -> str:
    """Return the vocabulary's file: `vocab.txt`, `vocab.txt.gz`, or the only one called alike.

    Raises CheckpointError where there is none, or more than one.
    """
    found = [file for file in source.files() if _is_vocabulary(PurePosixPath(file).name)]
    for exact in "vocab.txt.gz", "vocab.txt":
        if plain := [file for file in found if PurePosixPath(file).name == exact]:
            found = plain
            break
    if len(found) != 1:
        has = ", ".join(found[:5]) or "no vocab.txt"
        raise CheckpointError(
            f"{source.path}: holds {has}, expected one vocab.txt or vocab.txt.gz for the words"
        )
    return found[0]


def read(source: Source, file: str) -> WordVocabulary:
    """Read a vocabulary. Raises CheckpointError for one that lacks `<S>`, `</S>` or `<UNK>`."""
    label = source.label(file)
    content = source.read(file, _GREATEST)
    if file.endswith(".gz"):
        try:
            with gzip.open(io.BytesIO(content)) as stream:
                content = bounded(stream, label, _GREATEST)
        except (OSError, EOFError, zlib.error) as error:
            raise CheckpointError(f"{label}: cannot be unpacked: {error}") from error
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{label}: is not UTF-8: {error}") from error
    try:
        return WordVocabulary(tuple(_lines(text)))
    except AlphabetError as error:
        raise CheckpointError(f"{label}: {error}") from error


def text_of(words: Sequence[str]) -> str:
    """Return the text of a vocabulary file. Raises CheckpointError for words it cannot say."""
    text = "".join(f"{word}\n" for word in words)
    if _lines(text) != list(words):
        wrong = next(word for word in words if _lines(f"{word}\n") != [word])
        raise CheckpointError(f"vocab.txt: {wrong!r:.80} cannot stand on a line of its own")
    return text


def _lines(text: str) -> list[str]:
    # at line feeds alone, with or without a carriage return: words hold other separators
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.strip() for line in lines if line.strip() != _SKIPPED]


def _is_vocabulary(name: str) -> bool:
    return name.startswith("vocab") and name.endswith(_ENDINGS)
