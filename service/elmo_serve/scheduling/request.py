"""A request for vectors, the jobs that compute its sentences, and the batches of jobs that run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from elmo_model.text.by_length import BOUNDARIES
from elmo_serve.processes.arena import Arena, Vectors
from elmo_serve.scheduling.budgets import Hold
from elmo_serve.selection import Output
from elmo_serve.workers.language_results import Wanted
from elmo_serve.workers.messages import Batch

_ALIGNMENT = 64
"""Bytes: the results of each sentence begin at a multiple of it, which suits every element type."""


def cost_of(lengths: Collection[int]) -> int:
    """Return the cost in tokens, boundaries included, of sentences with these numbers of tokens."""
    return sum(lengths) + BOUNDARIES * len(lengths)


class Sentences:
    """The sentences of one call. Of equal ones with one output, the first is computed.

    Attributes:
        texts: the JSON text of each sentence's tokens, which the scheduler never parses.
        lengths: the number of tokens of each sentence.
        outputs: the result that is computed of each sentence. Outputs are compared by identity.
        places: the index of the first sentence that is equal to each sentence.
        computed: the indexes of the sentences that are computed, in ascending order.
        cost: the tokens of those, boundaries included.
        work: the tokens of vectors that take as long; `cost` where vectors alone are computed.
        is_bulk: whether anything but vectors is computed. It is bulk at any size: the softmax of a
            language model takes several times as long as the network.
    """

    def __init__(
        self, texts: Sequence[bytes], lengths: Sequence[int], outputs: Sequence[Wanted]
    ) -> None:
        self.texts, self.lengths, self.outputs = texts, lengths, outputs
        first: dict[tuple[bytes, int], int] = {}
        keys = zip(texts, map(id, outputs), strict=True)
        self.places = [first.setdefault(key, index) for index, key in enumerate(keys)]
        self.computed = list(first.values())
        self.cost = self.work = cost_of([lengths[index] for index in self.computed])
        kinds = dict(zip(map(id, outputs), outputs, strict=True)).values()
        self.is_bulk = not all(isinstance(each, Output) for each in kinds)
        if self.is_bulk:
            costs = ((outputs[i], lengths[i] + BOUNDARIES) for i in self.computed)
            self.work = sum(each.work(cost) for each, cost in costs)


@dataclass(slots=True, eq=False)
class Request:
    """All sentences of one call: answered together or not at all.

    A request ends once: with its last result, with its first error, or by `end` when its client
    has left or its time is over. An ended request takes no result and gives no tokens back, so the
    account of the queue counts every token once. Times are seconds of the scheduler's clock.

    Attributes:
        held: tokens of the queue's budget that are in use until their sentences are answered.
        arrived_at: when the request was admitted.
        virtual_seconds_per_token: between the virtual start times of two consecutive tokens.
        on_end: called once, when the last result or the first error is there.
        is_bulk: larger than one batch, or marked as background work by its caller.
        results: the vectors of each sentence that is computed, by its index.
        missing: how many of them are not there yet.
        queued_sentences, queued_tokens: those that wait for their first batch; kept by the queue.
    """

    sentences: Sentences
    held: Hold
    arrived_at: float
    virtual_seconds_per_token: float
    on_end: Callable[[], None]
    is_bulk: bool = False
    queued_sentences: int = field(init=False, default=0)
    queued_tokens: int = field(init=False, default=0)
    results: list[Vectors | None] = field(init=False)
    missing: int = field(init=False)
    error: Exception | None = field(init=False, default=None)
    is_over: bool = field(init=False, default=False)
    started_at: float | None = field(init=False, default=None)
    finished_at: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.missing = len(self.sentences.computed)
        self.results = [None] * len(self.sentences.texts)

    def jobs(self) -> Iterator[SentenceJob]:
        """Make the jobs; their virtual start times ascend from the arrival of the request."""
        virtual_start, every = self.arrived_at, self.sentences
        for index in every.computed:
            values = every.texts[index], every.outputs[index], every.lengths[index]
            job = SentenceJob(self, index, *values, virtual_start)
            virtual_start += self.virtual_seconds_per_token * job.cost
            yield job

    def start(self, now: float) -> bool:
        """Note that a sentence leaves the queue; return whether it is the first one."""
        if self.started_at is not None:
            return False
        self.started_at = now
        return True

    def answer(self, job: SentenceJob, vectors: Vectors, now: float) -> None:
        """Take the vectors of one job; the last ones end the request."""
        if self.is_over:
            return
        self.results[job.index] = vectors
        self.missing -= 1
        self.held.give_back(job.cost)
        if not self.missing:
            self.finish(now)

    def finish(self, now: float) -> None:
        """End the request with every result there."""
        self.finished_at = now
        self.end()
        self.on_end()

    def fail(self, error: Exception) -> None:
        """End the request with an error, unless it has ended."""
        if not self.is_over:
            self.error = error
            self.end()
            self.on_end()

    def end(self) -> None:
        """Take no further result, and give back the tokens that are not answered."""
        self.is_over = True
        self.held.release()


@dataclass(slots=True, eq=False)
class SentenceJob:
    """One sentence of a request to compute.

    Attributes:
        index: the number of the sentence in its request.
        sentence: the JSON text of its tokens.
        output: the result that is computed.
        virtual_start: orders the queue; seconds of the scheduler's clock.
        times_skipped: how many batches took a sentence with a later virtual start instead.
        was_lost: a worker died while it ran the job.
        cost: the tokens, with the two boundaries.
        work: the tokens of vectors that take as long.
    """

    request: Request
    index: int
    sentence: bytes
    output: Wanted
    tokens: int
    virtual_start: float
    times_skipped: int = 0
    was_lost: bool = False
    cost: int = field(init=False)
    work: int = field(init=False)

    def __post_init__(self) -> None:
        self.cost = self.tokens + BOUNDARIES
        self.work = self.output.work(self.cost)

    @property
    def is_wanted(self) -> bool:
        """Whether the request still waits. A job that is not wanted is never computed."""
        return not self.request.is_over


@dataclass(frozen=True, slots=True, eq=False)
class RunningBatch:
    """The jobs of a batch, in its order.

    A batch that `is_bulk` has no interactive sentence, so interactive ones may interrupt it.
    """

    batch: Batch
    jobs: Sequence[SentenceJob]
    shapes: Sequence[tuple[int, ...]]
    is_bulk: bool
    work: int

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
        assert jobs, "a batch has a job"
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
        is_bulk, work = all(job.request.is_bulk for job in jobs), sum(job.work for job in jobs)
        return cls(batch, jobs, shapes, is_bulk, work)

    def vectors(self, index: int) -> Vectors:
        """Return the vectors of one sentence, which the worker has written."""
        return Vectors(
            self.batch.block,
            self.batch.offsets[index],
            self.shapes[index],
            self.jobs[index].output.dtype,
        )


def padded_tokens(jobs: Sequence[SentenceJob]) -> int:
    """Return the padded size of a batch: the cost of its longest sentence for each of them."""
    return max(job.cost for job in jobs) * len(jobs)


def halves(jobs: list[SentenceJob]) -> tuple[list[SentenceJob], list[SentenceJob]]:
    """Return the first and the second half of a batch."""
    middle = len(jobs) // 2
    return jobs[:middle], jobs[middle:]
