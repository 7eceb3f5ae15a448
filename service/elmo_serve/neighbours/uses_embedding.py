"""The index of the text that comes with the program: embedded as bulk work, kept in the cache."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import secrets
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import orjson

from elmo_model.files import atomic as atomic_files
from elmo_model.neighbours.index import NeighbourIndex
from elmo_model.neighbours.manifest import Manifest
from elmo_model.neighbours.store import index_of_part, open_index
from elmo_model.neighbours.text import (
    BUILT_IN,
    IndexFolderError,
    built_in_digest,
    built_in_sentences,
)
from elmo_model.neighbours.writer import IndexWriter, PartWriter
from elmo_model.text.batches import by_length
from elmo_serve.jobs.bulk_queue import BulkQueue, Piece
from elmo_serve.output import Output
from elmo_serve.scheduling.engine import Embedded
from elmo_serve.workers.messages import ModelInfo

_LEFTOVER_SECONDS: Final = 86_400
"""Age of a temporary folder at which it is removed."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_IN_MEMORY: Final = "the index of uses is kept in memory alone: %s"
"""The warning, with its reason, where the cache cannot take an index."""

_log = logging.getLogger(__name__)


def cached_folder(cache: Path, info: ModelInfo) -> Path:
    """Return the folder of a model's index of the text: by revision, precision and text."""
    return cache / "neighbours" / f"{info.revision}-{info.precision}-{built_in_digest()}"


def open_cached(cache: Path | None, info: ModelInfo) -> NeighbourIndex | None:
    """Return a model's index of the text; None where the cache has none that is whole."""
    if cache is None:
        return None
    folder = cached_folder(cache, info)
    try:
        folder.stat()  # `is_dir` hides from Python 3.14 on that it cannot be looked up
        return open_index(folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (IndexFolderError, OSError) as error:  # OSError: a cache below an unsearchable folder
        _log.warning("%s; it is made anew", error)
        return None


async def embed_uses(
    queue: BulkQueue, cache: Path | None, on_tokens: Callable[[int], None]
) -> NeighbourIndex:
    """Embed the text that comes with the program; return its index, kept in the folder `cache`.

    Where the folder is None, or cannot take the index for any reason but a full disk, the index is
    kept in memory, and a warning is logged. `on_tokens` is called with the tokens of each piece.

    Raises:
        WorkFailedError, SentenceFailed: see `BulkQueue.run`.
        IndexFolderError: the vectors do not fit into an index.
        OSError: the disk is full.
    """
    info, text = queue.info, built_in_sentences()
    assert info.centre is not None, "the model is loaded"
    manifest = Manifest(
        BUILT_IN, queue.model, info.revision, info.layers, info.dimension, "whitespace"
    )
    with contextlib.ExitStack() as stack:
        folder = await asyncio.to_thread(_temporary, cache, info)
        if folder is None or cache is None:
            part = PartWriter(text, info.centre.layers, {})
            await _embed(queue, text, part, on_tokens)
            return index_of_part(manifest, info.centre.layers, part.finish())
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        # Graphs would take minutes of processor time from the workers.
        index = IndexWriter.begin(folder, manifest, info.centre.layers, graph_from=None)
        new = await asyncio.to_thread(index.new_part, text)
        await _embed(queue, text, new, on_tokens)
        return await asyncio.to_thread(_keep, index, new, folder, cached_folder(cache, info))


def _temporary(cache: Path | None, info: ModelInfo) -> Path | None:
    """Make a temporary folder in the cache; None where the cache cannot be written to."""
    reason: object = "ELMO_CACHE is not set and the user has no home folder"
    if cache is not None:
        folder = cached_folder(cache, info)
        temporary = folder.with_name(f".{secrets.token_hex(8)}.tmp")
        try:
            temporary.mkdir(parents=True)
            _remove_leftovers(folder.parent)
        except OSError as error:
            reason = error
        else:
            return temporary
    _log.warning(_IN_MEMORY, reason)
    return None


def _remove_leftovers(folder: Path) -> None:
    """Remove temporary folders of processes that were killed: none of them needs a day."""
    for path in folder.glob(".*.tmp"):
        with contextlib.suppress(FileNotFoundError):  # another server has just renamed it
            if time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


async def _embed(
    queue: BulkQueue,
    text: Sequence[Sequence[str]],
    part: PartWriter,
    on_tokens: Callable[[int], None],
) -> None:
    """Compute the layers of all sentences, in pieces of similar length, and write them."""
    output = Output(layers=tuple(range(queue.info.layers)), stacked=True)
    pieces = (
        Piece(
            numbers,
            [orjson.dumps(text[number]) for number in numbers],
            [len(text[number]) for number in numbers],
            output,
        )
        for numbers in by_length(range(len(text)), text, queue.piece_tokens)
    )

    def write(piece: Piece, embedded: Embedded) -> None:
        for number, vectors in zip(piece.numbers, embedded.vectors, strict=True):
            part.write(number, vectors.numpy())

    await queue.run(pieces, write, on_tokens)


def _keep(index: IndexWriter, new: PartWriter, folder: Path, target: Path) -> NeighbourIndex:
    """Finish the index in `folder` and return it: from `target` where it can be kept there.

    Raises OSError where the disk is full.
    """
    text = built_in_sentences()
    index.add(new, len(text), built_in_digest())
    index.finish()
    try:
        return _published(folder, target)
    except OSError as error:
        if error.errno in _FULL:
            raise
        _log.warning(_IN_MEMORY, error)
        return open_index(folder)  # its files are mapped: they outlive the folder


def _published(folder: Path, target: Path) -> NeighbourIndex:
    """Rename `folder` to `target`, in place of a damaged index; return the index at `target`.

    A whole one stays: it is of another server, which was faster. Raises OSError.
    """
    try:
        atomic_files.publish(folder, target)
    except OSError:
        if not target.exists():
            raise
        with contextlib.suppress(IndexFolderError):
            return open_index(target)
        shutil.rmtree(target, ignore_errors=True)
        atomic_files.publish(folder, target)
    return open_index(target)
