"""Stores of word vectors in a cache folder: a file is read once. `look_up` has their layout."""

import hashlib
import json
import os
import shutil
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np

from elmo_model.files import atomic as atomic_files
from elmo_model.files.arrays import mapped_array
from elmo_model.files.locks import locked_file, locked_folder, share_folder
from elmo_model.word_vectors.fasttext import MAGIC, Subwords, read_fasttext
from elmo_model.word_vectors.formats import (
    HEADER,
    Source,
    Words,
    WordVectorsError,
    is_tensors,
    open_source,
    read_tensors,
    read_text,
    read_word2vec,
)
from elmo_model.word_vectors.look_up import FACTS, VECTORS, VERSION, WordVectorsInfo, hash_of

_READERS: Final[Mapping[str, Callable[[Source], Words]]] = {
    "safetensors": read_tensors,
    "word2vec binary": read_word2vec,
    "word2vec text": read_text,
    "glove": read_text,
}
_FASTTEXT: Final = "fasttext"

_HEAD_BYTES: Final = 4_096
"""Bytes that the format is recognised by."""

_ROWS: Final = 4_096  # rows of subwords that are hashed at once

_used: dict[Path, int] = {}
"""The stores that this process uses: a descriptor of each, with a shared lock that ends with it."""


def store_folder(path: Path, cache: Path) -> Path:
    """Return the folder of the store of a file, in the folder `cache`; `path` may be a store.

    A file is read at its first use and whenever its size or time has changed; a second process
    waits for the first to finish. Raises WordVectorsError for a file that does not fit, with the
    line, and for a cache folder that cannot be written to.
    """
    if os.path.isdir(path):  # noqa: PTH112 - False where the path cannot be looked up
        if not (path / FACTS).is_file():
            raise WordVectorsError(f"{path}: is a folder, expected a file of word vectors")
        _use(path, path)
        return path
    try:
        file, version = _identity(path)
        folder = cache / "word-vectors" / f"{file}-{version}"
        if not _use(folder, folder.with_name(file)):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with locked_file(folder.with_name(f"{file}.lock"), -1):
                if not (folder / FACTS).exists():
                    _write(path, folder, folder.with_name(f".{file}.tmp"))
                _use(folder, folder.with_name(file))
                _remove_older(folder, file)
    except OSError as error:
        raise WordVectorsError(f"{path}: its map cannot be kept in {cache}: {error}") from error
    return folder


def write_store(path: Path, folder: Path) -> None:
    """Read a file of word vectors into an empty folder.

    Raises WordVectorsError for the file, and OSError for the folder, whose disk may be full.
    """
    with open_source(path) as source:
        form, subwords = _format(source), None
        if form == _FASTTEXT:
            words, subwords = read_fasttext(
                source, lambda shape: mapped_array(folder / "matrix.npy", shape, np.float32)
            )
        else:
            words = _READERS[form](source)
        _write_words(words, subwords, folder, path.name, form)


def _write_words(
    words: Words, subwords: Subwords | None, folder: Path, name: str, form: str
) -> None:
    """Write all files of a store but the matrix. Raises WordVectorsError for no word."""
    hashes, ends = array("Q"), array("Q")
    end = width = 0
    digest = hashlib.sha256()
    with ExitStack() as stack:  # on a full disk the end of each file raises OSError
        text = stack.enter_context((folder / "words.bin").open("wb"))
        vectors = stack.enter_context((folder / VECTORS).open("wb"))
        for word, vector in words:
            data = vector.astype("<f4", copy=False).tobytes()
            width = vector.size
            digest.update(word + b"\n" + data)
            text.write(word)
            vectors.write(data)
            end += len(word)
            ends.append(end)
            hashes.append(hash_of(word))
    if not hashes:
        raise WordVectorsError(f"{name}: holds no word")
    ngrams = None
    if subwords is not None:
        ngrams = [subwords.shortest, subwords.longest]
        for start in range(0, len(subwords.rows), _ROWS):
            digest.update(subwords.rows[start : start + _ROWS].tobytes())
    _write_order(hashes, ends, folder)
    revision = digest.hexdigest()[:12]
    info = WordVectorsInfo(name, form, revision, len(hashes), width)
    facts = {"version": VERSION, **asdict(info), "ngrams": ngrams}
    (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")


def _write_order(hashes: Sequence[int], ends: Sequence[int], folder: Path) -> None:
    """Write the hashes, sorted, the row of each, and the ends of the words."""
    values = np.array(hashes, np.uint64)
    order = np.argsort(values, kind="stable")  # of a repeated word the first row counts
    np.save(folder / "hashes.npy", values[order])
    np.save(folder / "rows.npy", order)
    np.save(folder / "ends.npy", np.array(ends, np.uint64))


def _format(source: Source) -> str:
    """Return the name of the format of a file, by its first bytes."""
    head = source.peek(_HEAD_BYTES)
    if head.startswith(MAGIC):
        return _FASTTEXT
    if is_tensors(head):
        return "safetensors"
    first, newline, rest = head.partition(b"\n")
    if HEADER.fullmatch(first + newline):
        # Numbers of four bytes are hardly ever printable; a text never has control characters.
        is_binary = any(byte < 9 or 13 < byte < 32 for byte in rest)
        return "word2vec binary" if is_binary else "word2vec text"
    return "glove"


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
        write_store(path, temporary)
        if folder.exists():
            shutil.rmtree(folder)
        atomic_files.publish(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _use(folder: Path, file: Path) -> bool:
    """Tell whether there is a store, and keep other processes from removing it.

    The lock ends with this process. A process uses one store of each `file`.
    """
    try:
        descriptor = share_folder(folder)
    except OSError:  # there is none, or it is of another user
        return False
    is_whole = (folder / FACTS).exists()  # another process may just have removed it
    if is_whole and file in _used:
        os.close(_used[file])
    if is_whole:
        _used[file] = descriptor
    else:
        os.close(descriptor)
    return is_whole


def _remove_older(folder: Path, file: str) -> None:
    """Remove the stores of older versions of a file that no process uses; its lock is held."""
    for older in folder.parent.glob(f"{file}-*"):
        if older == folder:
            continue
        with suppress(OSError), locked_folder(older):  # it is used, or of another user
            (older / FACTS).unlink(missing_ok=True)  # first: the rest is no store
            shutil.rmtree(older)
