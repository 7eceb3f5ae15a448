"""A request for vectors, and the jobs that compute its sentences."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from elmo_model.text.batches import BOUNDARIES
from elmo_serve.output import Wanted
from elmo_serve.scheduling.quotas import Hold
from elmo_serve.tracing.trace import Trace
from elmo_serve.workers.shared_memory import Vectors

BULK_COST = 1 << 62
"""The cost of a bulk request in the order of the queue: more than any batch holds."""


def cost_of(lengths: Collection[int]) -> int:
    """Return the cost in tokens, boundaries included, of sentences with these numbers of tokens."""
    return sum(lengths) + BOUNDARIES * len(lengths)


def computed_cost(
    sentences: Sequence[bytes], lengths: Sequence[int], outputs: Iterable[Wanted]
) -> int:
    """Return the cost of what is computed of a request: of equal sentences, the first.

    Outputs are told apart by identity, so equal ones that are two objects count twice.
    """
    jobs = dict(zip(zip(sentences, map(id, outputs), strict=True), lengths, strict=True))
    return cost_of(jobs.values())


@dataclass(slots=True, eq=False)
class Request:
    """All sentences of one call: answered together or not at all.

    A request ends once: with its last result, with its first error, or by `end` when its client
    has left or its time is over. An ended request takes no result and gives no tokens back, so the
    account of the queue counts every token once. Times are seconds of the scheduler's clock.

    Attributes:
        sentences: the JSON text of each sentence's tokens.
        lengths: the number of tokens of each sentence.
        outputs: the result that is computed of each sentence.
        held: tokens of the queue's budget that are in use until their sentences are answered.
        arrived_at: when the request was admitted.
        virtual_seconds_per_token: between the virtual start times of two consecutive tokens.
        on_end: called once, when the last result or the first error is there.
        is_bulk: whether the request is bulk however small it is.
        trace: what is noted for the spans of a sampled request.
        cost: its tokens, boundaries included, or `BULK_COST`; it orders the queue.
    """

    sentences: Sequence[bytes]
    lengths: Sequence[int]
    outputs: Sequence[Wanted]
    held: Hold
    arrived_at: float
    virtual_seconds_per_token: float
    on_end: Callable[[], None]
    is_bulk: bool = False
    trace: Trace | None = None
    cost: int = field(init=False)
    jobs: list[SentenceJob] = field(init=False, default_factory=list)  # of the first sentences
    next_virtual_start: float = field(init=False)  # of the first sentence that is not queued yet
    results: list[Vectors | None] = field(init=False)
    missing: int = field(init=False)
    error: Exception | None = field(init=False, default=None)
    is_over: bool = field(init=False, default=False)
    started_at: float | None = field(init=False, default=None)
    finished_at: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.cost = BULK_COST if self.is_bulk else self.held.left
        self.next_virtual_start = self.arrived_at
        self.missing = len(self.sentences)
        self.results = [None] * self.missing

    def start(self, now: float) -> bool:
        """Note that a sentence leaves the queue; return whether it is the first one."""
        if self.started_at is not None:
            return False
        self.started_at = now
        return True

    def answer(self, index: int, vectors: Vectors, cost: int, now: float) -> None:
        """Take the vectors of one sentence; the last ones end the request."""
        if self.is_over:
            return
        self.results[index] = vectors
        self.missing -= 1
        self.held.give_back(cost)
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


class JobState(Enum):
    """Where a job is: in the fair queue, in a batch to be run again, or with a worker."""

    QUEUED = auto()
    RETRY = auto()
    RUNNING = auto()


@dataclass(slots=True, eq=False)
class SentenceJob:
    """One sentence to compute, for every request that contains it.

    Attributes:
        sentence: the JSON text of the tokens, which the scheduler never parses.
        tokens: the number of tokens; `cost` is that number with the two boundaries.
        virtual_start: orders the queue; seconds of the scheduler's clock.
        request_cost: the cost of the smallest request that waits for the job.
        waiting: each request that waits, with the index of the sentence in it. A job for which no
            request waits is never computed.
        times_skipped: how many batches took a sentence with a later virtual start instead.
        was_lost: a worker died while it ran the job.
    """

    sentence: bytes
    output: Wanted
    tokens: int
    virtual_start: float
    request_cost: int
    waiting: list[tuple[Request, int]] = field(default_factory=list)
    state: JobState = JobState.QUEUED
    times_skipped: int = 0
    was_lost: bool = False
    cost: int = field(init=False)

    def __post_init__(self) -> None:
        self.cost = self.tokens + BOUNDARIES

    def add(self, request: Request, index: int) -> None:
        """Compute the job for one more request, whose sentence `index` it is."""
        self.request_cost = min(self.request_cost, request.cost)
        self.waiting.append((request, index))

    def start(self, now: float) -> list[Request]:
        """Note that the job leaves the queue; return the requests whose first sentence it is."""
        self.state = JobState.RUNNING
        return [request for request, _ in self.waiting if request.start(now)]

    def answer(self, vectors: Vectors, now: float) -> None:
        """Give the vectors to every request that waits."""
        for request, index in self.waiting:
            request.answer(index, vectors, self.cost, now)
        self.waiting.clear()

    def fail(self, error_at: Callable[[int], Exception]) -> None:
        """Fail every request that waits, with the error for the index of its sentence."""
        for request, index in self.waiting:
            request.fail(error_at(index))
        self.waiting.clear()

    def remove(self, request: Request) -> None:
        """Compute the job no longer for a request."""
        self.waiting = [waiter for waiter in self.waiting if waiter[0] is not request]
