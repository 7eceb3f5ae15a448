"""Maps of word vectors in a cache folder: a file is read once."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from elmo_model import atomic_files
from elmo_model.word_vectors.fasttext_format import MAGIC, read_fasttext
from elmo_model.word_vectors.map_writer import VERSION, MapWriter
from elmo_model.word_vectors.source import Source, WordVectorsError, open_source
from elmo_model.word_vectors.tensor_format import is_tensors, read_tensors
from elmo_model.word_vectors.text_format import HEADER, read_text
from elmo_model.word_vectors.word2vec_format import read_word2vec
from elmo_model.word_vectors.word_vectors import WordVectors

Read = Callable[[Source, MapWriter], None]

_HEAD_BYTES = 4_096
"""Bytes that the format is recognised by."""


def open_word_vectors(path: Path, cache: Path) -> WordVectors:
    """Open word vectors: a file, by its map in the folder `cache`, or the folder of a map.

    A file is read at its first use and whenever its size or time has changed; a second process
    waits for the first to finish. Raises WordVectorsError for a file that does not fit, with the
    line, and for a cache folder that cannot be written to.
    """
    return WordVectors.open(map_folder(path, cache))


def map_folder(path: Path, cache: Path) -> Path:
    """Return the folder of the map of a file, which is written where it is missing.

    `path` may be such a folder. Raises WordVectorsError as `open_word_vectors` does.
    """
    if os.path.isdir(path):  # noqa: PTH112 - False where the path cannot be looked up
        return path
    try:
        folder = cache / "word-vectors" / _identity(path)
        if (folder / "map.json").exists():
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_suffix(".lock")):
            if not (folder / "map.json").exists():
                _write(path, folder)
    except OSError as error:
        raise WordVectorsError(f"{path}: its map cannot be kept in {cache}: {error}") from error
    return folder


def read_map(path: Path, folder: Path) -> None:
    """Read a file of word vectors into an empty folder.

    Raises WordVectorsError for the file, and OSError for the folder, whose disk may be full.
    """
    with open_source(path) as source, MapWriter(folder) as writer:
        name, read = _format(source)
        read(source, writer)
        writer.finish(path.name, name)


def _format(source: Source) -> tuple[str, Read]:
    head = source.peek(_HEAD_BYTES)
    if head.startswith(MAGIC):
        return "fasttext", read_fasttext
    if is_tensors(head):
        return "safetensors", read_tensors
    first, newline, rest = head.partition(b"\n")
    if HEADER.fullmatch(first + newline):
        # Numbers of four bytes are hardly ever printable; a text never has control characters.
        if any(byte < 9 or 13 < byte < 32 for byte in rest):
            return "word2vec binary", read_word2vec
        return "word2vec text", read_text
    return "glove", read_text


def _identity(path: Path) -> str:
    """Return a name for the content of a file: of its path, size and time of change."""
    try:
        found = path.stat()
    except OSError as error:
        raise WordVectorsError(f"{path}: cannot be read: {error.strerror}") from error
    text = f"{VERSION}|{path.resolve()}|{found.st_size}|{found.st_mtime_ns}|{found.st_ino}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _write(path: Path, folder: Path) -> None:
    """Read a file into a temporary folder, and rename that to `folder`, whose lock is held."""
    temporary = folder.with_name(f".{folder.name}.tmp")
    if temporary.exists():  # of a process that was killed
        shutil.rmtree(temporary)
    temporary.mkdir()
    try:
        read_map(path, temporary)
        if folder.exists():
            shutil.rmtree(folder)
        atomic_files.publish(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
