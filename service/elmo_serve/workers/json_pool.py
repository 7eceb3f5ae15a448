"""The pool of JSON workers: processes that parse large requests and write answers as JSON."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from elmo_serve.errors import Unavailable
from elmo_serve.http.media_types.encoder import Chunk
from elmo_serve.http.request_body import Body, Parsed, RequestLimits
from elmo_serve.metrics import Metrics
from elmo_serve.workers.child_process import ChildProcess
from elmo_serve.workers.clock import EVENT_LOOP_CLOCK, Clock
from elmo_serve.workers.devices import cores
from elmo_serve.workers.json_worker import (
    JsonMessage,
    JsonTask,
    Parse,
    Sentences,
    Source,
    Started,
    Write,
    Written,
    work,
)
from elmo_serve.workers.shared_memory import Segment, SharedMemoryPool, Vectors
from elmo_serve.workers.supervisor import ChildSlot, ChildSpec, Loss
from elmo_serve.workers.watchdog import Timeouts

_PART_BYTES = 1 << 19
"""Bytes of float32 vectors in one task, some 3 ms of writing: one answer uses all processes."""

_PART_SENTENCES = 256
"""Sentences in one task: to name a sentence in a message costs time as well."""

_ITEM_BYTES = 4  # a float16 takes as long to write as a float32
_NUMBER_BYTES = 25  # at most: "-1.1754943508222875e-38," and brackets

_TASKS_AHEAD = 2
"""Tasks given to one process: one runs and one waits. More would wait behind a slow process."""

_ATTEMPTS = 2
"""Processes that may be lost over one task before its request is refused."""

_TIMEOUTS = Timeouts(load=60.0, first_batch=5.0, batch=3.0)


@dataclass(slots=True, eq=False)
class _Pending:
    """A task and the future of its result.

    A process finishes its task even after the request has run out of time. `held` are the arrays
    that keep the segments in use until then, or it would write into memory of another request.
    `size` is in bytes, for the watchdog.
    """

    task: JsonTask
    segments: tuple[Segment, ...]
    held: tuple[object, ...]
    size: int
    future: asyncio.Future[Any]
    sentences: list[bytes] = field(default_factory=list)
    attempts: int = 0

    def refuse(self, reason: str) -> None:
        """Fail the request for now."""
        if not self.future.done():
            detail = f"The JSON could not be read or written: {reason}."
            self.future.set_exception(Unavailable(detail, retry_after=1))


JsonSlot = ChildSlot[ChildProcess, JsonMessage, _Pending]


class JsonWorkerPool:
    """A few processes, and the tasks that wait for one of them."""

    def __init__(
        self,
        count: int | None,
        segments: SharedMemoryPool,
        metrics: Metrics,
        timeouts: Timeouts = _TIMEOUTS,
        clock: Clock = EVENT_LOOP_CLOCK,
    ) -> None:
        self._segments = segments
        self._waiting: list[_Pending] = []
        spec = ChildSpec(
            "JSON process",
            "it is starting",
            lambda: ChildProcess("elmo-json", work, (), segments),
            timeouts,
            _PART_BYTES,
        )
        peers: list[JsonSlot] = []
        self._slots = [
            _Slot(self, spec, peers, metrics, clock) for _ in range(count or _default_count())
        ]

    def start(self) -> None:
        """Spawn the processes."""
        for slot in self._slots:
            slot.supervised.start()

    async def stop(self) -> None:
        """End the processes."""
        await asyncio.gather(*(slot.supervised.stop() for slot in self._slots))

    @property
    def ready_count(self) -> int:
        """Processes that can take tasks."""
        return sum(slot.supervised.is_ready for slot in self._slots)

    async def write(self, vectors: Sequence[Vectors]) -> list[Chunk]:
        """Return the JSON of some sentences, with commas between them, in pieces.

        Raises:
            Unavailable: two processes were lost over it, none can be started, or memory is short.
        """
        parts: list[asyncio.Future[memoryview]] = []
        try:
            for part in _parts(vectors):
                parts.append(asyncio.ensure_future(self._write_part(part)))
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
        """Parse a request in another process.

        Raises:
            ServiceError: the error that `request_body.parse` raises.
            Unavailable: two processes were lost over it, none can be started, or memory is short.
        """
        segment, array = self._segments.acquire(body.size)
        body.move_to(array)
        task = Parse(segment, body.size, limits)
        pending = self._queue(task, (segment,), (array,), body.size, first=True)
        parsed: Parsed | Exception = await pending.future
        if isinstance(parsed, Exception):
            raise parsed
        return replace(parsed, sentences=pending.sentences)

    async def _write_part(self, vectors: Sequence[Vectors]) -> memoryview:
        numbers = sum(math.prod(v.shape) for v in vectors)
        brackets = sum(2 * math.prod(v.shape[:-1]) + 8 for v in vectors)
        target, array = self._segments.acquire(numbers * _NUMBER_BYTES + 2 * brackets)
        sources = tuple(Source(v.segment, v.offset, v.shape, v.dtype) for v in vectors)
        segments = (*{v.segment for v in vectors}, target)
        held = (array, *vectors)
        pending = self._queue(Write(sources, target), segments, held, numbers * _ITEM_BYTES)
        written: Written = await pending.future
        return array[: written.size].data

    def _queue(
        self,
        task: JsonTask,
        segments: tuple[Segment, ...],
        held: tuple[object, ...],
        size: int,
        *,
        first: bool = False,
    ) -> _Pending:
        future = asyncio.get_running_loop().create_future()
        pending = _Pending(task, segments, held, size, future)
        # A request is parsed before long answers are written.
        self._waiting.insert(0 if first else len(self._waiting), pending)
        self.dispatch()
        return pending

    def dispatch(self) -> None:
        """Give waiting tasks to the processes that are ready and have the fewest."""
        ready = [slot for slot in self._slots if slot.supervised.is_ready]
        while self._waiting and ready:
            slot = min(ready, key=lambda slot: slot.supervised.task_count)
            if slot.supervised.task_count >= _TASKS_AHEAD:
                return
            pending = self._waiting.pop(0)
            if not pending.future.done():
                slot.submit(pending)

    def on_lost(self, loss: Loss[_Pending]) -> None:
        """Queue the tasks of a lost process again.

        The task that it was working on may have killed it, and is tried once more at most. While no
        process can be started, nothing waits.
        """
        tasks = list(loss.waiting)
        if loss.running is not None:
            tasks.insert(0, loss.running)
            loss.running.attempts += 1
        for pending in reversed(tasks):
            pending.sentences.clear()
            if pending.attempts < _ATTEMPTS:
                self._waiting.insert(0, pending)
            else:
                pending.refuse(loss.reason)
        if all(slot.supervised.failed_starts for slot in self._slots):
            for pending in self._waiting:
                pending.refuse(loss.reason)
            self._waiting.clear()
        self.dispatch()


class _Slot:
    """A place for one process of the pool."""

    def __init__(
        self,
        pool: JsonWorkerPool,
        spec: ChildSpec[ChildProcess],
        peers: list[JsonSlot],
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._pool = pool
        self._metrics = metrics
        self.supervised: JsonSlot = ChildSlot(spec, self, peers, clock)

    def submit(self, pending: _Pending) -> None:
        """Give the process a task."""
        self.supervised.assign(pending, pending.size)
        self.supervised.child.send(pending.task, *pending.segments)

    def on_message(self, message: JsonMessage) -> None:
        """Handle a message of the process."""
        match message:
            case Started():
                self.supervised.mark_ready()
            case Sentences(sentences):
                pending = self.supervised.running
                if pending is not None:
                    pending.sentences += sentences
                self.supervised.renew()
                return
            case _:
                pending, _ = self.supervised.finish()
                if not pending.future.done():
                    pending.future.set_result(message)
        self._pool.dispatch()

    def on_lost(self, loss: Loss[_Pending]) -> None:
        """Report the loss of the process."""
        self._metrics.failures.labels("json_hung" if loss.was_hung else "json_lost").inc()
        self._pool.on_lost(loss)

    def on_restart(self) -> None:
        """Count nothing: the loss is counted."""


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


def _default_count() -> int:
    """Return half the cores: JSON is wanted by few clients, and the network uses all cores."""
    return max(1, min(8, cores() // 2))
