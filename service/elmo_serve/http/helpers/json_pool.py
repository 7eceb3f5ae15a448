"""The JSON processes: they parse large requests and write answers as JSON.

JSON costs so much processor time that it would block the event loop of the server.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from elmo_serve.http.calls.parse import Parsed, RequestLimits, RequestT, parse
from elmo_serve.http.helpers.pool import HelperPool
from elmo_serve.http.helpers.process import InSlices, Memory, runs
from elmo_serve.http.media_types import json_text
from elmo_serve.http.media_types.encoder import Chunk
from elmo_serve.workers.shared_memory import Bytes, Vectors, view
from elmo_serve.workers.watchdog import Timeouts

if TYPE_CHECKING:  # the processes import this module and receive no bodies
    from elmo_serve.http.calls.body import Body

_PART_BYTES = 1 << 19
"""Bytes of float32 vectors in one call, some 3 ms of writing: one answer uses all processes."""

_PART_SENTENCES = 256
"""Sentences in one call: to name a sentence in a message costs time as well."""

_ITEM_BYTES = 4  # a float16 takes as long to write as a float32
_NUMBER_BYTES = 25  # at most: "-1.1754943508222875e-38," and brackets

_OBJECT_BYTES = 64
"""Bytes of an embedding object around its numbers, its index included, or of an empty sentence."""


class JsonWorkerPool(HelperPool):
    """A few processes for JSON."""

    name = "json"
    title = "JSON process"
    refusal = "The JSON could not be read or written"
    timeouts = Timeouts(load=60.0, first_batch=5.0, batch=3.0)
    minimum_size = _PART_BYTES

    async def write(self, vectors: Sequence[Vectors], *, as_objects: bool = False) -> list[Chunk]:
        """Return the JSON of some sentences, with commas between them, in pieces.

        With `as_objects` each is an embedding object of OpenAI.

        Raises:
            Unavailable: two processes were lost over it, none can be started, or memory is short.
        """
        parts: list[asyncio.Future[memoryview]] = []
        try:
            sizes = (math.prod(one.shape) * _ITEM_BYTES for one in vectors)
            for part in runs(sizes, _PART_BYTES, _PART_SENTENCES):
                first = part.start if as_objects else None
                parts.append(asyncio.ensure_future(self._write_part(vectors[part], first)))
                await asyncio.sleep(0)
            texts = await asyncio.gather(*parts)
        except BaseException:
            for unfinished in parts:
                unfinished.cancel()
            raise
        pieces: list[Chunk] = []
        for text in texts:
            if pieces:
                pieces.append(b",")
            pieces.append(text)
        return pieces

    async def parse(
        self, model: type[RequestT], body: Body, limits: RequestLimits
    ) -> Parsed[RequestT]:
        """Return `parse.parse(model, body, limits)`, and free the pieces of the body.

        A request is parsed before long answers are written.

        Raises:
            ServiceError: the error that `parse.parse` raises.
            Unavailable: two processes were lost over it, none can be started, or memory is short.
        """
        parsed: Parsed[RequestT] = await self.run_on(body, _parsed, model, limits, first=True)
        return parsed

    async def _write_part(self, vectors: Sequence[Vectors], first: int | None) -> memoryview:
        numbers = sum(math.prod(v.shape) for v in vectors)
        brackets = sum(2 * math.prod(v.shape[:-1]) + _OBJECT_BYTES for v in vectors)
        target, array = self.segments.acquire(numbers * _NUMBER_BYTES + 2 * brackets)
        read = {v.segment.id: Memory(v.segment, v.array) for v in vectors}
        number = {segment_id: number for number, segment_id in enumerate(read)}
        sources = [(number[v.segment.id], v.offset, v.shape, v.dtype) for v in vectors]
        written = Memory(target, array)
        size: int = await self.run(
            _write, first, sources, written, *read.values(), size=numbers * _ITEM_BYTES
        )
        return array[:size].data


def _parsed(memory: Bytes, size: int, model: type[RequestT], limits: RequestLimits) -> InSlices:
    """Parse the first `size` bytes of `memory`."""
    return InSlices(parse(model, memory.data[:size], limits))


def _write(
    first: int | None,
    sources: Sequence[tuple[int, int, tuple[int, ...], str]],
    target: Bytes,
    *memory: Bytes,
) -> int:
    """Write vectors to `target` as JSON, with commas between sentences; return its size in bytes.

    A source is the number of its memory, and the offset, shape and type of the vectors in it. With
    `first` each is an embedding object of OpenAI, numbered from `first` on.
    """
    arrays = (view(memory[number], start, shape, dtype) for number, start, shape, dtype in sources)
    texts = json_text.texts(arrays)
    written, end = target.data, 0
    for text in texts if first is None else json_text.embedding_objects(texts, first):
        start, end = end, end + len(text)
        written[start:end] = text
    return end
