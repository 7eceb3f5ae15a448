"""The process that parses the bodies of fits: of 8 MiB, or of text, it takes up to minutes.

It is spawned for the first fit. A process of its own, so that no response in JSON and no text of
`POST /embed` waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from elmo_serve.errors import ServiceError
from elmo_serve.jobs.fit_body import read_fit
from elmo_serve.jobs.fit_plan import FitPlan, FitSource
from elmo_serve.metrics import Metrics
from elmo_serve.workers.process import Parent
from elmo_serve.workers.shared_memory import Segment, SegmentHandle, SharedMemoryPool
from elmo_serve.workers.task_messages import Part, Started
from elmo_serve.workers.task_pool import TaskKind, TaskPool
from elmo_serve.workers.watchdog import Timeouts

_SLICE_SENTENCES = 1_000
"""Sentences of a plan in one message, which the event loop unpickles in one go."""


@dataclass(frozen=True, slots=True)
class ParseFit:
    """The task to parse the first `size` bytes of `segment`."""

    segment: Segment | SegmentHandle
    size: int
    source: FitSource


def work(parent: Parent) -> None:
    """Parse bodies until the server closes the channel."""
    parent.send(Started())
    while True:
        task: ParseFit = parent.receive()
        try:
            plan = read_fit(parent.memory(task.segment).data[: task.size], task.source).plan()
        except ServiceError as error:
            parent.send(error)
            continue
        for some in _slices(plan.sentences):
            parent.send(Part(some))
        parent.send(replace(plan, sentences=[]))


_KIND = TaskKind(
    name="body",
    title="body parser",
    work=work,
    refusal="The body could not be read",
    # Moses splits some 100,000 characters a second, and a body may have 8 MiB of them.
    timeouts=Timeouts(load=120.0, first_batch=600.0, batch=600.0),
    minimum_size=1 << 20,
)


class FitParser(TaskPool[ParseFit]):
    """One process, spawned for the first body."""

    def __init__(self, segments: SharedMemoryPool, metrics: Metrics) -> None:
        super().__init__(_KIND, 1, segments, metrics)
        self._segments = segments
        self._is_started = False

    async def parse(self, body: bytes, source: FitSource) -> FitPlan:
        """Return the plan of a fit.

        Raises:
            ServiceError: the error that `read_fit` raises.
            Unavailable: two processes were lost over it, none can be started, or memory is short.
        """
        if not self._is_started:
            self._is_started = True
            self.start()
        segment, array = self._segments.acquire(max(len(body), 1))
        array[: len(body)] = np.frombuffer(body, np.uint8)
        task = ParseFit(segment, len(body), source)
        pending = self.submit(task, len(body), (segment,), (array,))
        found: FitPlan | ServiceError = await pending.future
        if isinstance(found, ServiceError):
            raise found
        return replace(found, sentences=pending.items)


def _slices(sentences: list[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(sentences), _SLICE_SENTENCES):
        yield sentences[start : start + _SLICE_SENTENCES]
