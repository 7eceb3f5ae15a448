"""Processes that read and write JSON: it would hold the event loop for as long as it takes."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from service.batching.job import Vectors
from service.encodings import json_text
from service.encodings.answer import Chunk
from service.errors import InternalError, ServiceError
from service.parsing import Parsed, RequestLimits, parse
from service.workers.child import Child, Parent
from service.workers.devices import cores
from service.workers.segments import Bytes, Segment, SegmentName, SegmentPool, view

_log = logging.getLogger("service.encodings")

_PART_BYTES = 1 << 19  # of vectors, some 3 ms of writing: small enough to share among processes
SMALL_BODY_BYTES = 1 << 14
"""Bytes of body that are parsed in a millisecond or less, and so not in another process."""

_PART_SENTENCES = 256  # naming one to the process is work too
_ITEM_BYTES = 4  # a float16 is written as slowly as a float32
_MOST_BYTES_PER_NUMBER = 25  # "-1.1754943508222875e-38," and brackets
_SLICE_BYTES, _SLICE_SENTENCES = 1 << 18, 1_000  # of a parsed request, in one message
_AT_ONCE = 2  # tasks given to a process: one runs, one waits
_MOST_ATTEMPTS = 2
_RESTART_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class _Source:
    """Vectors as another process finds them."""

    segment: Segment | SegmentName
    offset: int
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class _Write:
    """Write these as JSON to ``target``."""

    id: int
    sources: tuple[_Source, ...]
    target: Segment | SegmentName


@dataclass(frozen=True, slots=True)
class _Parse:
    """Parse the first ``size`` bytes of ``source`` as a request."""

    id: int
    source: Segment | SegmentName
    size: int
    limits: RequestLimits


_Task = _Write | _Parse


@dataclass(frozen=True, slots=True)
class _Some:
    """Sentences of a request, ahead of the rest: to read one large message takes too long."""

    sentences: list[bytes]


@dataclass(slots=True, eq=False)
class _Pending:
    """A task that somebody awaits."""

    task: _Task
    named: tuple[Segment, ...]
    future: asyncio.Future[Any]
    sentences: list[bytes] = field(default_factory=list)
    attempts: int = 0


class Body:
    """A request's body as it comes; a large one in shared memory, which grows with it."""

    def __init__(self, segments: SegmentPool) -> None:
        self._segments = segments
        self._head = bytearray()
        self._segment: Segment | None = None
        self._array = np.frombuffer(b"", np.uint8)
        self.size = 0

    def add(self, chunk: bytes) -> None:
        """Append some bytes."""
        end = self.size + len(chunk)
        if end <= SMALL_BODY_BYTES:
            self._head += chunk
        else:
            self._make_room(end)
            self._array[self.size : end] = np.frombuffer(chunk, np.uint8)
        self.size = end

    @property
    def text(self) -> bytes:
        """A body of at most SMALL_BODY_BYTES."""
        return bytes(self._head)

    @property
    def segment(self) -> Segment:
        """Where a larger body lies."""
        assert self._segment is not None
        return self._segment

    def _make_room(self, end: int) -> None:
        if end <= len(self._array):
            return
        before = self._array[: self.size] if self._segment else np.frombuffer(self._head, np.uint8)
        self._segment, self._array = self._segments.lend(2 * end)
        self._array[: self.size] = before


class Writers:
    """A few processes, and the tasks that wait for one of them."""

    def __init__(self, count: int | None, segments: SegmentPool) -> None:
        self._segments = segments
        self._seats = [_Seat(self, segments) for _ in range(count or _by_cores())]
        self._waiting: list[_Pending] = []
        self._ids = itertools.count(1)

    def start(self) -> None:
        """Spawn the processes."""
        for seat in self._seats:
            seat.start()

    async def stop(self) -> None:
        """End the processes."""
        await asyncio.gather(*(seat.stop() for seat in self._seats))

    async def write(self, vectors: Sequence[Vectors]) -> list[Chunk]:
        """Return the JSON of some sentences, with commas between them, in pieces."""
        parts = []
        for part in _parts(vectors):
            parts.append(asyncio.ensure_future(self._part(part)))
            await asyncio.sleep(0)
        pieces: list[Chunk] = []
        for text in await asyncio.gather(*parts):
            if pieces:
                pieces.append(b",")
            pieces.append(text)
        return pieces

    async def parse(self, body: Body, limits: RequestLimits) -> Parsed:
        """Parse a request elsewhere; raises what ``parse`` raises."""
        task = _Parse(next(self._ids), body.segment, body.size, limits)
        pending = self._queue(task, (body.segment,), first=True)
        parsed = await pending.future
        if isinstance(parsed, Exception):
            raise parsed
        assert isinstance(parsed, Parsed)
        return replace(parsed, sentences=pending.sentences)

    def body(self) -> Body:
        """Return room for a body that is to be parsed elsewhere."""
        return Body(self._segments)

    async def _part(self, vectors: Sequence[Vectors]) -> memoryview:
        numbers = sum(math.prod(v.shape) for v in vectors)
        brackets = sum(2 * math.prod(v.shape[:-1]) + 8 for v in vectors)
        target, array = self._segments.lend(numbers * _MOST_BYTES_PER_NUMBER + 2 * brackets)
        sources = tuple(_Source(v.segment, v.offset, v.shape, v.dtype) for v in vectors)
        named = (*{v.segment for v in vectors}, target)
        size = await self._queue(_Write(next(self._ids), sources, target), named).future
        return array[:size].data

    def _queue(self, task: _Task, named: tuple[Segment, ...], *, first: bool = False) -> _Pending:
        pending = _Pending(task, named, asyncio.get_running_loop().create_future())
        # A request that comes does not wait until long answers are written.
        self._waiting.insert(0 if first else len(self._waiting), pending)
        self.dispatch()
        return pending

    def dispatch(self) -> None:
        """Give waiting tasks to the processes with the fewest."""
        while self._waiting:
            seat = min(self._seats, key=lambda seat: len(seat.pending))
            if len(seat.pending) >= _AT_ONCE:
                return
            pending = self._waiting.pop(0)
            if not pending.future.done():
                seat.submit(pending)

    def again(self, pending: _Pending) -> None:
        """Try a task once more whose process died; a second death is the task's own fault."""
        pending.attempts += 1
        pending.sentences.clear()
        if pending.attempts < _MOST_ATTEMPTS:
            self._waiting.insert(0, pending)
        elif not pending.future.done():
            pending.future.set_exception(InternalError())


class _Seat:
    """One process, replaced when it dies."""

    def __init__(self, owner: Writers, segments: SegmentPool) -> None:
        self.pending: dict[int, _Pending] = {}
        self._owner = owner
        self._segments = segments
        self._child = self._make()
        self._is_stopping = False

    def start(self) -> None:
        self._child.start()

    def submit(self, pending: _Pending) -> None:
        self.pending[pending.task.id] = pending
        self._child.send(pending.task, *pending.named)

    async def stop(self) -> None:
        self._is_stopping = True
        await self._child.stop()

    def _make(self) -> Child:
        return Child("elmo-json", work, (), self._segments, self._received, self._ended)

    def _received(self, message: tuple[int, Any]) -> None:
        task_id, result = message
        if isinstance(result, _Some):
            self.pending[task_id].sentences += result.sentences
            return
        pending = self.pending.pop(task_id)
        if not pending.future.done():
            pending.future.set_result(result)
        self._owner.dispatch()

    def _ended(self, reason: str) -> None:
        if self._is_stopping:
            return
        _log.error("JSON process lost", extra={"reason": reason})
        lost, self.pending = list(self.pending.values()), {}
        self._child = self._make()
        asyncio.get_running_loop().call_later(_RESTART_SECONDS, self._child.start)
        for pending in reversed(lost):
            self._owner.again(pending)
        self._owner.dispatch()


def work(parent: Parent) -> None:
    """Do tasks until the front hangs up."""
    while True:
        task: _Task = parent.receive()
        result = _write(parent, task) if isinstance(task, _Write) else _parse(parent, task)
        if isinstance(result, Parsed):
            for some in _slices(result.sentences):
                parent.send((task.id, _Some(some)))
            result = replace(result, sentences=[])
        parent.send((task.id, result))


def _write(parent: Parent, task: _Write) -> int:
    assert isinstance(task.target, SegmentName)
    text = json_text.write(
        view(_memory(parent, source.segment), source.offset, source.shape, source.dtype)
        for source in task.sources
    )
    parent.memory(task.target)[: len(text)] = text
    return len(text)


def _parse(parent: Parent, task: _Parse) -> Parsed | ServiceError:
    assert isinstance(task.source, SegmentName)
    body = memoryview(parent.memory(task.source))[: task.size]
    try:
        return parse(body, task.limits)
    except ServiceError as error:
        return error


def _slices(sentences: list[bytes]) -> Iterator[list[bytes]]:
    start, size = 0, 0
    for index, sentence in enumerate(sentences):
        size += len(sentence)
        if size >= _SLICE_BYTES or index - start + 1 == _SLICE_SENTENCES:
            yield sentences[start : index + 1]
            start, size = index + 1, 0
    yield sentences[start:]


def _memory(parent: Parent, segment: Segment | SegmentName) -> Bytes:
    assert isinstance(segment, SegmentName)
    return np.frombuffer(parent.memory(segment), np.uint8)


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


def _by_cores() -> int:
    """Return half the cores: JSON is read by few and computed beside the network."""
    return max(1, min(8, cores() // 2))
