"""Maps of word vectors in a cache folder: a file is read once."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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

_FACTS = "map.json"
"""The file that makes a folder a map."""

_used: dict[Path, int] = {}
"""The maps that this process uses: a descriptor of each, with a shared lock that ends with it."""


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
        _use(path, path)
        return path
    try:
        file, version = _identity(path)
        folder = cache / "word-vectors" / f"{file}-{version}"
        if not _use(folder, folder.with_name(file)):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _locked(folder.with_name(f"{file}.lock")):
                if not (folder / _FACTS).exists():
                    _write(path, folder, folder.with_name(f".{file}.tmp"))
                _use(folder, folder.with_name(file))
                _remove_older(folder, file)
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


def _identity(path: Path) -> tuple[str, str]:
    """Return a name for the path of a file, and one for its content: size and time of change."""
    try:
        found = path.stat()
    except OSError as error:
        raise WordVectorsError(f"{path}: cannot be read: {error.strerror}") from error
    content = f"{VERSION}|{found.st_size}|{found.st_mtime_ns}|{found.st_ino}"
    return _short_hash(str(path.resolve())), _short_hash(content)


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _write(path: Path, folder: Path, temporary: Path) -> None:
    """Read a file into a temporary folder, and rename that to `folder`; its lock is held."""
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


def _use(folder: Path, file: Path) -> bool:
    """Tell whether there is a map, and keep other processes from removing it while this one lives.

    A process uses one map of each `file`.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # there is none, or it is of another user
        return False
    with suppress(OSError):  # some network file systems have no locks
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    is_whole = (folder / _FACTS).exists()  # another process may just have removed it
    if is_whole and file in _used:
        os.close(_used[file])
    if is_whole:
        _used[file] = descriptor
    else:
        os.close(descriptor)
    return is_whole


def _remove_older(folder: Path, file: str) -> None:
    """Remove the maps of older versions of a file that no process uses; its lock is held."""
    for older in folder.parent.glob(f"{file}-*"):
        if older == folder:
            continue
        with suppress(OSError):  # it is used, or of another user
            descriptor = os.open(older, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (older / _FACTS).unlink(missing_ok=True)  # first: the rest is no map
                shutil.rmtree(older)
            finally:
                os.close(descriptor)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
