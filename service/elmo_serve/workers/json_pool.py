"""The pool of JSON workers: processes that parse large requests and write answers as JSON."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from elmo_serve.http.media_types.encoder import Chunk
from elmo_serve.http.request.body import Body
from elmo_serve.http.request.parsing import Parsed, RequestLimits, TextRequest
from elmo_serve.http.text.bodies import Form, TextBody
from elmo_serve.metrics import Metrics
from elmo_serve.workers.json_worker import JsonTask, Parse, Source, Write, Written, work
from elmo_serve.workers.shared_memory import SharedMemoryPool, Vectors
from elmo_serve.workers.task_pool import TaskKind, TaskPool
from elmo_serve.workers.watchdog import EVENT_LOOP_CLOCK, Clock, Timeouts

_PART_BYTES = 1 << 19
"""Bytes of float32 vectors in one task, some 3 ms of writing: one answer uses all processes."""

_PART_SENTENCES = 256
"""Sentences in one task: to name a sentence in a message costs time as well."""

_ITEM_BYTES = 4  # a float16 takes as long to write as a float32
_NUMBER_BYTES = 25  # at most: "-1.1754943508222875e-38," and brackets

_OBJECT_BYTES = 64
"""Bytes of an embedding object around its numbers, its index included, or of an empty sentence."""

_KIND = TaskKind(
    name="json",
    title="JSON process",
    work=work,
    refusal="The JSON could not be read or written",
    timeouts=Timeouts(load=60.0, first_batch=5.0, batch=3.0),
    minimum_size=_PART_BYTES,
)


class JsonWorkerPool(TaskPool[JsonTask]):
    """A few processes, and the tasks that wait for one of them."""

    def __init__(
        self,
        count: int | None,
        segments: SharedMemoryPool,
        metrics: Metrics,
        clock: Clock = EVENT_LOOP_CLOCK,
    ) -> None:
        super().__init__(_KIND, count, segments, metrics, clock)
        self._segments = segments

    async def write(self, vectors: Sequence[Vectors], *, as_objects: bool = False) -> list[Chunk]:
        """Return the JSON of some sentences, with commas between them, in pieces.

        With `as_objects` each is an embedding object of OpenAI.

        Raises:
            Unavailable: two processes were lost over it, none can be started, or memory is short.
        """
        parts: list[asyncio.Future[memoryview]] = []
        try:
            start = 0
            for part in _parts(vectors):
                first = start if as_objects else None
                parts.append(asyncio.ensure_future(self._write_part(part, first)))
                start += len(part)
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

    async def parse(self, body: Body, limits: RequestLimits) -> Parsed:
        """Parse the body of `POST /embed` in another process.

        Raises:
            ServiceError: the error that `parsing.parse` raises.
            Unavailable: two processes were lost over it, none can be started, or memory is short.
        """
        parsed: Parsed
        parsed, items = await self._parse(body, limits, "/embed")
        if parsed.text is None:
            return replace(parsed, sentences=items)
        return replace(parsed, text=replace(parsed.text, texts=items))

    async def parse_tokenize(self, body: Body, limits: RequestLimits) -> TextRequest:
        """Likewise for the body of `POST /tokenize`."""
        parsed: TextRequest
        parsed, items = await self._parse(body, limits, "/tokenize")
        return replace(parsed, texts=items)

    async def parse_form(self, body: Body, limits: RequestLimits, form: Form) -> TextBody:
        """Likewise for a body of a form; raises as `text_bodies.parse`."""
        parsed: TextBody
        parsed, items = await self._parse(body, limits, form)
        return replace(parsed, sentences=items)

    async def _parse(self, body: Body, limits: RequestLimits, route: str) -> tuple[Any, list[Any]]:
        """Return a parsed body of a route without its sentences or texts, and these."""
        segment, array = self._segments.acquire(body.size)
        body.move_to(array)
        task = Parse(segment, body.size, limits, route)
        # A request is parsed before long answers are written.
        pending = self.submit(task, body.size, (segment,), (array,), first=True)
        parsed = await pending.future
        if isinstance(parsed, Exception):
            raise parsed
        return parsed, pending.items

    async def _write_part(self, vectors: Sequence[Vectors], first: int | None) -> memoryview:
        numbers = sum(math.prod(v.shape) for v in vectors)
        brackets = sum(2 * math.prod(v.shape[:-1]) + _OBJECT_BYTES for v in vectors)
        target, array = self._segments.acquire(numbers * _NUMBER_BYTES + 2 * brackets)
        sources = tuple(Source(v.segment, v.offset, v.shape, v.dtype) for v in vectors)
        segments = (*{v.segment for v in vectors}, target)
        held = (array, *vectors)
        pending = self.submit(Write(sources, target, first), numbers * _ITEM_BYTES, segments, held)
        written: Written = await pending.future
        return array[: written.size].data


def _parts(vectors: Sequence[Vectors]) -> Iterator[Sequence[Vectors]]:
    """Cut sentences into runs of about the same number of bytes, and not too many sentences."""
    start, size = 0, 0
    for index, one in enumerate(vectors):
        size += math.prod(one.shape) * _ITEM_BYTES
        if size >= _PART_BYTES or index - start + 1 == _PART_SENTENCES:
            yield vectors[start : index + 1]
            start, size = index + 1, 0
    if start < len(vectors):
        yield vectors[start:]
