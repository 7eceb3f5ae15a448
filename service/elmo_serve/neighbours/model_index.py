"""The index that the uses of one model are searched in.

That of the text that comes with the program is embedded as bulk work and kept in the cache.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson

from elmo_model.files import atomic as atomic_files
from elmo_model.files.locks import locked_folder, share_folder
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
from elmo_serve.bulk_queue import BulkQueue, Piece
from elmo_serve.errors import Unavailable
from elmo_serve.neighbours.user_indexes import NO_INDEXES, UserIndexes
from elmo_serve.output import Output
from elmo_serve.scheduling.engine import Embedded
from elmo_serve.workers.messages import ModelInfo

_LONGEST_RETRY: Final = 60.0
"""Largest Retry-After in seconds while the text is embedded."""

_FIRST_RETRY: Final = 5.0
"""Retry-After in seconds before the speed is known."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_IN_MEMORY: Final = "the index of uses is kept in memory alone: %s"
"""The warning, with its reason, where the cache cannot take an index."""

_log = logging.getLogger("elmo_serve")


@dataclass(slots=True, eq=False)
class ModelIndex:
    """The one of `indexes` for the model, or the index of the text that comes with the program.

    The latter is opened, or computed, when it is first asked for. `queue` makes the queue of its
    bulk work, once the model is loaded. `embedding` is the work, while there is any.
    """

    queue: Callable[[], BulkQueue]
    cache: Path | None
    indexes: UserIndexes = NO_INDEXES
    embedding: asyncio.Task[NeighbourIndex] | None = field(default=None, init=False)
    _index: NeighbourIndex | None = field(default=None, init=False)
    _opening: asyncio.Task[NeighbourIndex | None] | None = field(default=None, init=False)
    _started_at: float = field(default=0.0, init=False)
    _done_tokens: int = field(default=0, init=False)

    async def get(self) -> NeighbourIndex:
        """Return the index.

        Raises:
            Unavailable: the text is being embedded, or could not be; `detail` says how far it is.
        """
        if self._index is None:
            self._index = self.indexes.of(self.queue().info.revision) or await self._cached()
        if self._index is None:
            self._index = self._embedded()
        return self._index

    def close(self) -> None:
        """End the work."""
        for task in (self._opening, self.embedding):
            if task is not None:
                task.cancel()

    async def _cached(self) -> NeighbourIndex | None:
        """Return the index that the cache has; it is looked for once."""
        if self._opening is None:
            info = self.queue().info
            self._opening = asyncio.create_task(asyncio.to_thread(open_cached, self.cache, info))
        return await asyncio.shield(self._opening)

    def _embedded(self) -> NeighbourIndex:
        """Return the index if it is computed. Raises Unavailable."""
        if self.embedding is None:
            self._started_at, self._done_tokens = time.monotonic(), 0
            self.embedding = asyncio.create_task(self._embed())
        if self.embedding.done():
            embedding, self.embedding = self.embedding, None
            if (error := embedding.exception()) is None:
                return embedding.result()
            reason = f"The text of the uses could not be embedded: {error}. It is tried again."
            raise Unavailable(reason, retry_after=_LONGEST_RETRY)
        tokens = sum(map(len, built_in_sentences()))
        raise Unavailable(
            "The text that comes with the program is being embedded, once for each model: "
            f"{self._done_tokens:,} of {tokens:,} tokens are done "
            f"({self._done_tokens / tokens:.0%}). A text of your own needs an index of this "
            "model in ELMO_INDEX.",
            retry_after=self._seconds_left(tokens),
        )

    async def _embed(self) -> NeighbourIndex:
        queue = self.queue()
        try:
            index = await embed_uses(queue, self.cache, self._on_tokens)
        except Exception as error:
            _log.error("the text of the uses could not be embedded: %s", error)
            raise
        seconds = time.monotonic() - self._started_at
        _log.info(
            "%s: embedded %s tokens to find uses in, in %.1f s",
            queue.model,
            f"{index.info.tokens:,}",
            seconds,
        )
        return index

    def _on_tokens(self, tokens: int) -> None:
        self._done_tokens += tokens

    def _seconds_left(self, tokens: int) -> float:
        if not self._done_tokens:
            return _FIRST_RETRY
        speed = self._done_tokens / (time.monotonic() - self._started_at)
        return min((tokens - self._done_tokens) / speed, _LONGEST_RETRY)


def cached_folder(cache: Path, info: ModelInfo) -> Path:
    """Return the folder of a model's index of the text: by revision, precision and text."""
    return cache / "neighbours" / f"{info.revision}-{info.precision}-{built_in_digest()}"


def open_cached(cache: Path | None, info: ModelInfo) -> NeighbourIndex | None:
    """Return a model's index of the text, None where there is none. A damaged one is removed."""
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
        shutil.rmtree(folder, ignore_errors=True)
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
        folder = await asyncio.to_thread(_temporary, cache, info, stack)
        if folder is None or cache is None:
            part = PartWriter(text, info.centre.layers, {})
            await _embed(queue, text, part, on_tokens)
            return index_of_part(manifest, info.centre.layers, part.finish())
        index = IndexWriter.begin(folder, manifest, info.centre.layers)
        new = await asyncio.to_thread(index.new_part, text)
        await _embed(queue, text, new, on_tokens)
        return await asyncio.to_thread(_keep, index, new, folder, cached_folder(cache, info))


def _temporary(cache: Path | None, info: ModelInfo, stack: contextlib.ExitStack) -> Path | None:
    """Make a temporary folder in the cache; None where the cache cannot be written to.

    `stack` removes it. A shared lock, which ends with the process, tells others that it is in use.
    """
    reason: object = "ELMO_CACHE is not set and the user has no home folder"
    if cache is not None:
        parent = cached_folder(cache, info).parent
        temporary = parent / f".{secrets.token_hex(8)}.tmp"
        try:
            temporary.mkdir(parents=True)
            stack.callback(os.close, share_folder(temporary))
            stack.callback(shutil.rmtree, temporary, ignore_errors=True)
            for path in parent.glob(".*.tmp"):
                with contextlib.suppress(OSError), locked_folder(path):  # its process was killed
                    shutil.rmtree(path)
        except OSError as error:
            reason = error
        else:
            return temporary
    _log.warning(_IN_MEMORY, reason)
    return None


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
    """Finish the index in `folder` and rename it to `target`; return the index at `target`.

    That may be one of another server, which was faster. Where none can be kept there, the index is
    in memory. Raises OSError where the disk is full.
    """
    text = built_in_sentences()
    index.add(new, len(text), built_in_digest())
    index.finish()
    try:
        atomic_files.publish(folder, target)
    except OSError as error:
        with contextlib.suppress(IndexFolderError):
            return open_index(target)
        if error.errno in _FULL:
            raise
        _log.warning(_IN_MEMORY, error)
        return open_index(folder)  # its files are mapped: they outlive the folder
    return open_index(target)
