"""The index that the uses of one model are searched in."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from elmo_model.neighbours.index import NeighbourIndex
from elmo_model.neighbours.text import built_in_sentences
from elmo_serve.errors import Unavailable
from elmo_serve.jobs.bulk_queue import BulkQueue
from elmo_serve.neighbours.user_indexes import NO_INDEXES, UserIndexes
from elmo_serve.neighbours.uses_embedding import embed_uses, open_cached

_LONGEST_RETRY: Final = 60.0
"""Largest Retry-After in seconds while the text is embedded."""

_FIRST_RETRY: Final = 5.0
"""Retry-After in seconds before the speed is known."""

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
            f"({self._done_tokens / tokens:.0%}). ELMO_INDEX names an index of another text.",
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
