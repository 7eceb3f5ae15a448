"""The index of uses that each model is searched in: of `ELMO_INDEX`, or of the built-in text.

That of the built-in text is embedded as bulk work at its first use, and kept in the cache.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from elmo_model.files import atomic as atomic_files
from elmo_model.uses.files import FILE, IndexWriter, open_index, temporary_folder
from elmo_model.uses.index import IndexInfo, UsesIndex
from elmo_model.uses.text import (
    BUILT_IN,
    IndexFolderError,
    built_in_digest,
    built_in_sentences,
)
from elmo_serve.bulk_queue import BulkQueue
from elmo_serve.errors import Unavailable
from elmo_serve.output import Output
from elmo_serve.scheduling.engine import Embedded
from elmo_serve.settings import SettingsError, variable
from elmo_serve.workers.messages import ModelInfo

_LONGEST_RETRY: Final = 60.0
"""Largest Retry-After in seconds while the text is embedded."""

_FIRST_RETRY: Final = 5.0
"""Retry-After in seconds before the speed is known."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_log = logging.getLogger("elmo_serve")

Indexes = Mapping[str, tuple[Path, UsesIndex]]
"""The indexes of `ELMO_INDEX`, with their folders, by the revision of their model."""


def open_indexes(folders: Sequence[Path], called: str = variable("index")) -> Indexes:
    """Open the indexes in some folders; `called` is the user's name for the setting.

    Raises SettingsError for a folder that is no whole index, and for two of one model.
    """
    indexes: dict[str, tuple[Path, UsesIndex]] = {}
    for folder in folders:
        try:
            index = open_index(folder)
        except IndexFolderError as error:
            raise _refusal(called, folder, str(error)) from None
        other, known = indexes.setdefault(index.info.revision, (folder, index))
        if known is not index:
            raise _refusal(called, folder, f"{other} is of the same model")
    return indexes


def check_indexes(indexes: Indexes, models: Mapping[str, str]) -> None:
    """Raise SettingsError for an index of no model; `models` has the revision of each name."""
    served = ", ".join(f"{name} is {revision}" for name, revision in models.items())
    for revision, (folder, index) in indexes.items():
        if revision not in models.values():
            fault = f"it is of the model {index.info.model}, revision {revision}; {served}"
            raise _refusal(variable("index"), folder, fault)


def _refusal(called: str, folder: Path, fault: str) -> SettingsError:
    return SettingsError(
        f"{called}={str(folder)!r} is not allowed: {fault}; allowed: a folder that "
        "`elmo index` has written for a model that is served"
    )


@dataclass(slots=True, eq=False)
class ModelUses:
    """The index that /neighbours searches: the user's, or that of the built-in text.

    `queue` makes the queue of the model's bulk work, once the model is loaded. `embedding` is the
    running computation of the built-in text.
    """

    queue: Callable[[], BulkQueue]
    cache: Path | None
    indexes: Indexes = field(default_factory=dict)
    embedding: asyncio.Task[UsesIndex] | None = field(default=None, init=False)
    _index: UsesIndex | None = field(default=None, init=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _started_at: float = field(default=0.0, init=False)
    _done_tokens: int = field(default=0, init=False)

    async def get(self) -> UsesIndex:
        """Return the index.

        Raises:
            Unavailable: the text is being embedded, or could not be; `detail` says how far it is.
        """
        async with self._lock:
            if self._index is None and self.embedding is None:
                self._index = await self._stored()
            if self._index is None:
                self._index = self._embedded()
        return self._index

    def close(self) -> None:
        """End the work."""
        if self.embedding is not None:
            self.embedding.cancel()

    async def _stored(self) -> UsesIndex | None:
        """Return the user's index, or that in the cache."""
        info = self.queue().info
        if info.revision in self.indexes:
            return self.indexes[info.revision][1]
        return await asyncio.to_thread(open_cached, self.cache, info)

    def _embedded(self) -> UsesIndex:
        """Return the index if it is computed; start the computation if none runs."""
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
            f"({self._done_tokens / tokens:.0%}).",
            retry_after=self._seconds_left(tokens),
        )

    async def _embed(self) -> UsesIndex:
        queue = self.queue()
        try:
            index = await embed_uses(queue, self.cache, self._on_tokens)
        except Exception as error:
            _log.error("the text of the uses could not be embedded: %s", error)
            raise
        seconds = time.monotonic() - self._started_at
        tokens = f"{index.info.tokens:,}"
        _log.info("%s: embedded %s tokens to find uses in, in %.1f s", queue.model, tokens, seconds)
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
    return cache / "uses" / f"{info.revision}-{info.precision}-{built_in_digest()}"


def open_cached(cache: Path | None, info: ModelInfo) -> UsesIndex | None:
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
) -> UsesIndex:
    """Embed the built-in text; return its index, kept in the folder `cache`.

    Where the folder is None, or cannot take the index for any reason but a full disk, the index is
    kept in memory, and a warning is logged. `on_tokens` is called with the tokens of each piece.

    Raises:
        WorkFailedError, SentenceFailed: see `BulkQueue.run`.
        IndexFolderError: the vectors do not fit into an index.
        OSError: the disk is full.
    """
    info, text = queue.info, built_in_sentences()
    assert info.centre is not None, "the model is loaded"
    description = IndexInfo(
        BUILT_IN, queue.model, info.revision, info.layers, info.dimension, "whitespace"
    )
    with contextlib.ExitStack() as stack:
        folder = await asyncio.to_thread(_temporary, cache, info, stack)
        arguments = description, info.centre.layers, text, folder
        writer = await asyncio.to_thread(IndexWriter, *arguments)
        await _embed(queue, text, writer, on_tokens)
        index = await asyncio.to_thread(writer.finish)
        if folder is not None and cache is not None:
            await asyncio.to_thread(_keep, folder, cached_folder(cache, info))
        return index  # its files are mapped: they outlive their names


def _temporary(cache: Path | None, info: ModelInfo, stack: contextlib.ExitStack) -> Path | None:
    """Make a folder in the cache that `stack` removes; None where the cache cannot be written."""
    reason: object = "ELMO_CACHE is not set and the user has no home folder"
    if cache is not None:
        try:
            return stack.enter_context(temporary_folder(cached_folder(cache, info).parent))
        except OSError as error:
            reason = error
    _log.warning("the index of uses is kept in memory alone: %s", reason)
    return None


async def _embed(
    queue: BulkQueue,
    text: Sequence[Sequence[str]],
    writer: IndexWriter,
    on_tokens: Callable[[int], None],
) -> None:
    """Compute the layers of all sentences, and write them."""
    output = Output(layers=tuple(range(queue.info.layers)), stacked=True)

    def write(numbers: Sequence[int], embedded: Embedded) -> None:
        for number, vectors in zip(numbers, embedded.vectors, strict=True):
            writer.write(number, vectors.numpy())

    await queue.run(text, output, write, on_tokens)


def _keep(folder: Path, target: Path) -> None:
    """Rename a finished index, unless another server was faster. Raises OSError for a full disk."""
    try:
        atomic_files.publish(folder, target)
    except OSError as error:
        if error.errno in _FULL:
            raise
        if not os.access(target / FILE, os.R_OK):
            _log.warning("the index of uses is kept in memory alone: %s", error)
