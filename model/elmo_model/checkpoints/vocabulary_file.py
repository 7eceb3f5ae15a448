"""The vocabulary file of bilm-tf: one word a line, plain or gzipped."""

import gzip
import io
from collections.abc import Sequence
from pathlib import PurePosixPath

from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.checkpoints.source import Source, bounded, only
from elmo_model.errors import shown
from elmo_model.text.alphabets import AlphabetError, WordVocabulary

_MAX_SIZE = 64 << 20  # bytes; the published vocabulary of 793,471 words has 8 MB
SKIPPED = "!!!MAXTERMID"
"""A line that bilm-tf skips: no vocabulary has this word."""
_ENDINGS = (".txt", ".txt.gz")


def find_vocabulary(source: Source) -> str:
    """Return `vocab.txt.gz`, else `vocab.txt`, else the only `vocab*.txt` or `vocab*.txt.gz`.

    Raises CheckpointError if there is none, or more than one.
    """
    files = [file for file in source.files if _is_vocabulary(PurePosixPath(file).name)]
    for exact in "vocab.txt.gz", "vocab.txt":
        if plain := [file for file in files if PurePosixPath(file).name == exact]:
            files = plain
            break
    return only(source, files, "vocab.txt or vocab.txt.gz")


def read(source: Source) -> WordVocabulary:
    """Read the vocabulary that `find` finds.

    Raises CheckpointError for one that lacks `<S>`, `</S>` or `<UNK>`.
    """
    file = find_vocabulary(source)
    try:
        return WordVocabulary(tuple(words_of(source, file)))
    except AlphabetError as error:
        raise CheckpointError(f"{source.label(file)}: {error}") from error


def words_of(source: Source, file: str) -> list[str]:
    """Return the words of a file; an empty line is the empty word (bilm-tf `data.py`).

    A byte order mark is left out. Raises CheckpointError for a file that cannot be read or is not
    UTF-8.
    """
    label = source.label(file)
    content = source.read(file, _MAX_SIZE)
    if file.endswith(".gz"):
        with gzip.open(io.BytesIO(content)) as stream:
            content = bounded(stream, label, _MAX_SIZE)
    try:
        return lines(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{label}: is not UTF-8: {error}") from error


def text_of(words: Sequence[str]) -> str:
    """Return the text of a vocabulary file.

    Raises CheckpointError for a word that would be read back differently, such as one that holds a
    line feed.
    """
    text = "".join(f"{word}\n" for word in words)
    if lines(text) != list(words):
        wrong = next(word for word in words if lines(f"{word}\n") != [word])
        raise CheckpointError(f"vocab.txt: {shown(wrong)} cannot stand on a line of its own")
    return text


def lines(text: str) -> list[str]:
    """Return the words of the text of a vocabulary file."""
    # Split at line ends alone: `str.splitlines` also splits at U+0085 and U+2028, which occur in
    # words.
    words = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if words[-1] == "":
        words.pop()
    return [line.strip() for line in words if line.strip() != SKIPPED]


def _is_vocabulary(name: str) -> bool:
    return name.startswith("vocab") and name.endswith(_ENDINGS)
