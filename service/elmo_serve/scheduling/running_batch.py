"""A batch that a worker runs, and the place of each result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elmo_serve.processes.arena import Arena, Vectors
from elmo_serve.scheduling.fair_queue import padded_tokens
from elmo_serve.scheduling.request import SentenceJob
from elmo_serve.workers.messages import Batch

_ALIGNMENT = 64
"""Bytes: the results of each sentence begin at a multiple of it, which suits every element type."""


@dataclass(frozen=True, slots=True, eq=False)
class RunningBatch:
    """The jobs of a batch, in its order.

    A batch that `is_bulk` has no interactive
    sentence, so interactive ones may interrupt it.
    """

    batch: Batch
    jobs: Sequence[SentenceJob]
    shapes: Sequence[tuple[int, ...]]
    is_bulk: bool

    @classmethod
    def of(
        cls,
        jobs: Sequence[SentenceJob],
        number: int,
        dimension: int,
        arena: Arena,
        *,
        is_urgent: bool = False,
    ) -> RunningBatch:
        """Return a batch with room for vectors of `dimension` numbers.

        Raises Unavailable when there is no shared memory.
        """
        offsets, shapes, size = [], [], 0
        for job in jobs:
            offsets.append(size)
            shapes.append(job.output.shape(job.tokens, dimension))
            size += -(-job.output.size(job.tokens, dimension) // _ALIGNMENT) * _ALIGNMENT
        batch = Batch(
            id=number,
            sentences=tuple(job.sentence for job in jobs),
            outputs=tuple(job.output for job in jobs),
            offsets=tuple(offsets),
            tokens=sum(job.cost for job in jobs),
            padded_tokens=padded_tokens(jobs),
            block=arena.acquire(size),
            is_urgent=is_urgent,
        )
        return cls(batch, jobs, shapes, all(job.request.is_bulk for job in jobs))

    def vectors(self, index: int, unknown: int = 0) -> Vectors:
        """Return the vectors of one sentence, which the worker has written.

        `unknown` is the number of its tokens without a word vector.
        """
        return Vectors(
            self.batch.block,
            self.batch.offsets[index],
            self.shapes[index],
            self.jobs[index].output.dtype,
            unknown,
        )
