"""Processes that read and write JSON: it would hold the event loop for as long as it takes."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from elmo_serve.errors import ServiceError, Unavailable
from elmo_serve.http.media_types import json_text
from elmo_serve.http.media_types.encoder import Chunk
from elmo_serve.http.parsing import Parsed, RequestLimits, parse
from elmo_serve.metrics import Metrics
from elmo_serve.workers.child_process import ChildProcess, Parent
from elmo_serve.workers.devices import cores
from elmo_serve.workers.shared_memory import (
    Bytes,
    Segment,
    SegmentHandle,
    SharedMemoryPool,
    Vectors,
    view,
)
from elmo_serve.workers.watchdog import LatencyEstimate, Timeouts, Watchdog

_log = logging.getLogger("elmo_serve.http.media_types")

_PART_BYTES = 1 << 19  # of vectors, some 3 ms of writing: small enough to share among processes
SMALL_BODY_BYTES = 1 << 14
"""Bytes of body that are parsed in a millisecond or less, and so not in another process."""

_PART_SENTENCES = 256  # naming one to the process is work too
_ITEM_BYTES = 4  # a float16 is written as slowly as a float32
_MOST_BYTES_PER_NUMBER = 25  # "-1.1754943508222875e-38," and brackets
_SLICE_BYTES, _SLICE_SENTENCES = 1 << 18, 1_000  # of a parsed request, in one message
_AT_ONCE = 2  # tasks given to a process: one runs, one waits
_MOST_ATTEMPTS = 2
_FIRST_DELAY, _LONGEST_DELAY = 0.2, 10.0
_HOPELESS_STARTS = 3
_TIMEOUTS = Timeouts(load=60.0, first_batch=5.0, batch=3.0)


@dataclass(frozen=True, slots=True)
class _Source:
    """Vectors as another process finds them."""

    segment: Segment | SegmentHandle
    offset: int
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class _Write:
    """Write these as JSON to ``target``."""

    id: int
    sources: tuple[_Source, ...]
    target: Segment | SegmentHandle


@dataclass(frozen=True, slots=True)
class _Parse:
    """Parse the first ``size`` bytes of ``source`` as a request."""

    id: int
    source: Segment | SegmentHandle
    size: int
    limits: RequestLimits


_Task = _Write | _Parse


@dataclass(frozen=True, slots=True)
class _Up:
    """The process can take tasks."""


@dataclass(frozen=True, slots=True)
class _Some:
    """Sentences of a request, ahead of the rest: to read one large message takes too long."""

    sentences: list[bytes]


@dataclass(slots=True, eq=False)
class _Pending:
    """A task that somebody awaits, or has awaited: its process goes on all the same.

    ``held`` are the arrays that keep its segments lent: a request that runs out of time lets go of
    them, and the process would write into what others were lent.
    """

    task: _Task
    named: tuple[Segment, ...]
    held: tuple[object, ...]
    size: int  # in bytes: what its time is learned by
    future: asyncio.Future[Any]
    sentences: list[bytes] = field(default_factory=list)
    attempts: int = 0


class Body:
    """A request's body as it comes; a large one in shared memory, which grows with it."""

    def __init__(self, segments: SharedMemoryPool) -> None:
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
        self._segment, self._array = self._segments.acquire(2 * end)
        self._array[: self.size] = before


class JsonWorkerPool:
    """A few processes, and the tasks that wait for one of them."""

    def __init__(
        self,
        count: int | None,
        segments: SharedMemoryPool,
        metrics: Metrics,
        timeouts: Timeouts = _TIMEOUTS,
    ) -> None:
        self._segments = segments
        self._seats = [
            _Seat(self, segments, metrics, timeouts) for _ in range(count or _by_cores())
        ]
        self._waiting: list[_Pending] = []
        self._ids = itertools.count(1)

    def start(self) -> None:
        """Spawn the processes."""
        for slot in self._seats:
            slot.start()

    async def stop(self) -> None:
        """End the processes."""
        await asyncio.gather(*(slot.stop() for slot in self._seats))

    async def write(self, vectors: Sequence[Vectors]) -> list[Chunk]:
        """Return the JSON of some sentences, with commas between them, in pieces.

        Raises:
            Unavailable: two processes were lost over it, or none can be started.
        """
        parts: list[asyncio.Future[memoryview]] = []
        try:
            for part in _parts(vectors):
                parts.append(asyncio.ensure_future(self._part(part)))
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
        """Parse a request elsewhere.

        Raises:
            ServiceError: what ``parse`` raises.
            Unavailable: two processes were lost over it, or none can be started.
        """
        task = _Parse(next(self._ids), body.segment, body.size, limits)
        pending = self._queue(task, (body.segment,), (body,), body.size, first=True)
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
        target, array = self._segments.acquire(numbers * _MOST_BYTES_PER_NUMBER + 2 * brackets)
        sources = tuple(_Source(v.segment, v.offset, v.shape, v.dtype) for v in vectors)
        named = (*{v.segment for v in vectors}, target)
        task = _Write(next(self._ids), sources, target)
        size = await self._queue(task, named, (array, *vectors), numbers * _ITEM_BYTES).future
        return array[:size].data

    def _queue(
        self,
        task: _Task,
        named: tuple[Segment, ...],
        held: tuple[object, ...],
        size: int,
        *,
        first: bool = False,
    ) -> _Pending:
        pending = _Pending(task, named, held, size, asyncio.get_running_loop().create_future())
        # A request that comes does not wait until long answers are written.
        self._waiting.insert(0 if first else len(self._waiting), pending)
        self.dispatch()
        return pending

    def dispatch(self) -> None:
        """Give waiting tasks to the processes with the fewest; none to one that starts."""
        up = [slot for slot in self._seats if slot.is_up]
        while self._waiting and up:
            slot = min(up, key=lambda slot: len(slot.pending))
            if len(slot.pending) >= _AT_ONCE:
                return
            pending = self._waiting.pop(0)
            if not pending.future.done():
                slot.submit(pending)

    def lost(self, pendings: Sequence[_Pending], reason: str) -> None:
        """Queue the tasks of a process that is gone again; the first of them it was doing.

        That one may be what it was lost over, and so is tried once more at most.
        """
        for place, pending in reversed(list(enumerate(pendings))):
            pending.attempts += place == 0
            pending.sentences.clear()
            if pending.future.done():
                continue
            if pending.attempts < _MOST_ATTEMPTS:
                self._waiting.insert(0, pending)
            else:
                _refuse(pending, reason)
        if all(slot.failed_starts >= _HOPELESS_STARTS for slot in self._seats):
            for pending in self._waiting:
                _refuse(pending, reason)
            self._waiting.clear()
        self.dispatch()


class _Seat:
    """One process, replaced when it dies or is silent for too long."""

    def __init__(
        self,
        owner: JsonWorkerPool,
        segments: SharedMemoryPool,
        metrics: Metrics,
        timeouts: Timeouts,
    ) -> None:
        self.pending: dict[int, _Pending] = {}  # the first is being done
        self.is_up = False
        self.failed_starts = 0
        self._owner = owner
        self._segments = segments
        self._metrics = metrics
        self._patience = timeouts
        self._pace = LatencyEstimate(timeouts, _PART_BYTES)
        self._watch = Watchdog(self._lose_patience)
        self._child = self._make()
        self._restart: asyncio.TimerHandle | None = None
        self._began = 0.0
        self._is_hung = False
        self._is_stopping = False

    def start(self) -> None:
        self._restart = None
        self._watch.expect(self._patience.load)
        self._child.start()

    def submit(self, pending: _Pending) -> None:
        self.pending[pending.task.id] = pending
        if len(self.pending) == 1:
            self._began = time.monotonic()
            self._expect_next()
        self._child.send(pending.task, *pending.named)

    async def stop(self) -> None:
        self._is_stopping = True
        self._watch.expect(None)
        if self._restart is not None:
            self._restart.cancel()
        await self._child.stop()

    def _make(self) -> ChildProcess:
        return ChildProcess("elmo-json", work, (), self._segments, self._received, self._ended)

    def _received(self, message: tuple[int, Any]) -> None:
        task_id, result = message
        if isinstance(result, _Up):
            self.is_up = True
            self.failed_starts = 0
            self._watch.expect(None)
        elif isinstance(result, _Some):
            self.pending[task_id].sentences += result.sentences
            self._expect_next()
            return
        else:
            self._task_ended(self.pending.pop(task_id), result)
        self._owner.dispatch()

    def _task_ended(self, pending: _Pending, result: object) -> None:
        now = time.monotonic()
        self._pace.learn(pending.size, now - self._began)
        self._began = now
        self._expect_next()
        if not pending.future.done():
            pending.future.set_result(result)

    def _expect_next(self) -> None:
        """Wait for the task that is being done, if there is one."""
        first = next(iter(self.pending.values()), None)
        self._watch.expect(None if first is None else self._pace.bound(first.size))

    def _lose_patience(self, seconds: float) -> None:
        _log.error("JSON process hangs", extra={"silent_seconds": round(seconds, 1)})
        self._is_hung = True
        self._child.kill()

    def _ended(self, reason: str) -> None:
        if self._is_stopping:
            return
        _log.error("JSON process lost", extra={"reason": reason})
        self._metrics.failures.labels("json_hung" if self._is_hung else "json_lost").inc()
        self._watch.expect(None)
        self.failed_starts += not self.is_up
        self.is_up = self._is_hung = False
        lost, self.pending = list(self.pending.values()), {}
        self._child = self._make()
        delay = min(_FIRST_DELAY * 2 ** min(self.failed_starts, 8), _LONGEST_DELAY)
        self._restart = asyncio.get_running_loop().call_later(delay, self.start)
        self._owner.lost(lost, reason)


def _refuse(pending: _Pending, reason: str) -> None:
    if not pending.future.done():
        error = Unavailable(f"The process that reads and writes JSON {reason}.", retry_after=1)
        pending.future.set_exception(error)


def work(parent: Parent) -> None:
    """Do tasks until the front hangs up."""
    parent.send((0, _Up()))
    while True:
        task: _Task = parent.receive()
        result = _write(parent, task) if isinstance(task, _Write) else _parse(parent, task)
        if isinstance(result, Parsed):
            for some in _slices(result.sentences):
                parent.send((task.id, _Some(some)))
            result = replace(result, sentences=[])
        parent.send((task.id, result))


def _write(parent: Parent, task: _Write) -> int:
    assert isinstance(task.target, SegmentHandle)
    memory, end = parent.memory(task.target), 0
    arrays = (
        view(_memory(parent, source.segment), source.offset, source.shape, source.dtype)
        for source in task.sources
    )
    for text in json_text.texts(arrays):
        start, end = end, end + len(text)
        memory[start:end] = text
    return end


def _parse(parent: Parent, task: _Parse) -> Parsed | ServiceError:
    assert isinstance(task.source, SegmentHandle)
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


def _memory(parent: Parent, segment: Segment | SegmentHandle) -> Bytes:
    assert isinstance(segment, SegmentHandle)
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
