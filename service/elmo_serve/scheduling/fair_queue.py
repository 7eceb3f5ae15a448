"""The fair queue: the order in which sentences run, and which of them share a batch."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter

from elmo_serve.scheduling.request import BULK_COST, SentenceJob

MAX_SENTENCES = 1024
"""Sentences in a batch at most. Composing and answering a batch takes the event loop some 10 us a
sentence, and a batch of a GPU has room for five times as many of one word. Raising it stops the
event loop for longer."""

_WINDOW_BATCHES = 4
"""Batches' worth of tokens at the head of the queue among which a batch is composed. Raising it
gives less padding and a less strict order (`benchmarks.load` prints the padding)."""

AGEING_BOUND = 3 * _WINDOW_BATCHES
"""Number of times that a sentence may be skipped for later ones. After that it runs first, whatever
its length. A lower bound reaches more sentences, so more batches mix lengths and hold more padding.
"""

BULK_DIVISOR = 16
"""An interactive batch is filled with bulk sentences up to 1/16 of the token budget. With so few
rows a time step is bound by reading the weights, so these rows are almost free. A lower divisor
adds more of them, and the interactive request waits longer (`benchmarks.fairness`)."""

_virtual_start = attrgetter("virtual_start")
_cost = attrgetter("cost")


class FairQueue:
    """Start-time fair queueing of sentences, cut into batches of similar length.

    Each sentence has a virtual start time, and the queue is sorted by it. The sentences of a
    request have theirs spread over the time that the request may take, so a short request overtakes
    a long one that came before it, and nothing starves.

    A batch starts from the earliest sentence and takes others of similar length from a window at
    the head of the queue. A sentence is skipped at most `AGEING_BOUND` times.

    A request that costs more than one batch is bulk, every other one is interactive. An interactive
    sentence runs in a small batch of its own, before the next batch of bulk and before bulk
    sentences that have reached their ageing bound, unless those are due earlier. Bulk that costs
    `BULK_COST` is background work, for which nobody waits: an interactive sentence runs before a
    batch of it even if that is due earlier, but not before sentences of it that have reached the
    ageing bound and are due earlier.
    """

    def __init__(self) -> None:
        self._jobs: list[SentenceJob] = []  # sorted; up to half of it are removed jobs
        self._tokens = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def tokens(self) -> int:
        """The cost of all jobs, in tokens with boundaries."""
        return self._tokens

    def tokens_before(self, virtual_time: float) -> float:
        """Estimate the tokens of all jobs that start before a virtual time."""
        if not self._jobs:
            return 0.0
        position = bisect.bisect_left(self._jobs, virtual_time, key=_virtual_start)
        return self._tokens * position / len(self._jobs)

    def add(self, jobs: Iterable[SentenceJob]) -> None:
        """Queue jobs, fastest when they come in ascending order of their virtual start."""
        for job in jobs:
            if not self._jobs or job.virtual_start >= self._jobs[-1].virtual_start:
                self._jobs.append(job)
            else:
                bisect.insort(self._jobs, job, key=_virtual_start)
            self._count += 1
            self._tokens += job.cost

    def remove(self, job: SentenceJob) -> None:
        """Remove a queued job for which no request waits any more."""
        self._count -= 1
        self._tokens -= job.cost
        if len(self._jobs) > 2 * self._count:  # half of them are removed ones
            self._jobs = [job for job in self._jobs if job.waiting]

    def advance(self, job: SentenceJob, virtual_start: float) -> None:
        """Move a queued job forward: a request that is due earlier waits for it as well."""
        self._delete(job)
        job.virtual_start = virtual_start
        bisect.insort(self._jobs, job, key=_virtual_start)

    def _delete(self, job: SentenceJob) -> None:
        index = bisect.bisect_left(self._jobs, job.virtual_start, key=_virtual_start)
        while self._jobs[index] is not job:
            index += 1
        del self._jobs[index]

    def take(self, jobs: Iterable[SentenceJob], budget: int) -> list[SentenceJob]:
        """Remove the first of some queued jobs and others of similar length; return them."""
        window = list(dict.fromkeys(islice(jobs, budget)))
        batch = window[:1]
        if batch:
            _fill(batch, sorted(window[1:], key=_cost), budget)
        for job in batch:
            self._delete(job)
        self._count -= len(batch)
        self._tokens -= sum(map(_cost, batch))
        return batch

    def next_batch(self, budget: int) -> list[SentenceJob]:
        """Remove the jobs of the next batch and return them; an empty list if there is none.

        The padded size (longest cost x number of jobs) is at most `budget` tokens, except that a
        single job always fits.
        """
        window = self._take_window(budget)
        if not window:
            return []
        batch = _compose(window, budget)
        taken = set(map(id, batch))
        latest = max(map(_virtual_start, batch))
        kept = [job for job in window if id(job) not in taken]
        for job in kept:
            job.times_skipped += job.virtual_start < latest
        self._jobs[:0] = kept
        self._count -= len(batch)
        self._tokens -= sum(map(_cost, batch))
        return batch

    def _take_window(self, budget: int) -> list[SentenceJob]:
        """Remove and return the jobs at the head of the queue, without the removed ones."""
        window, cost, position = [], 0, 0
        for job in self._jobs:
            if cost >= _WINDOW_BATCHES * budget or len(window) >= _WINDOW_BATCHES * MAX_SENTENCES:
                break
            position += 1
            if job.waiting:
                window.append(job)
                cost += job.cost
        del self._jobs[:position]
        return window


def _compose(window: list[SentenceJob], budget: int) -> list[SentenceJob]:
    """Return the jobs that must run now, and others of similar length while they fit."""
    batch, latest = _must_run(window, budget)
    taken = set(map(id, batch))
    rest = [job for job in window if job.virtual_start <= latest and id(job) not in taken]
    rest.sort(key=_cost)  # stable: jobs of one length stay in the order of the queue
    bulk = [job for job in rest if job.request_cost > budget]
    if any(job.request_cost > budget for job in batch):  # interactive jobs can interrupt it
        _fill(batch, bulk, budget)
    else:
        _fill(batch, [job for job in rest if job.request_cost <= budget], budget)
        _fill(batch, bulk, budget // BULK_DIVISOR)
    return batch


def _must_run(window: list[SentenceJob], budget: int) -> tuple[list[SentenceJob], float]:
    """Return the jobs that start the batch, and the latest virtual start of any job added to it.

    They are the jobs that have reached the ageing bound, as many as fit, or else the next job.
    """
    first = _next_job(window, budget)
    aged = [job for job in window if job.times_skipped >= AGEING_BOUND]
    if not aged:
        return [first], window[-1].virtual_start
    if (
        first.request_cost <= budget < aged[0].request_cost
        and first.virtual_start < aged[0].virtual_start
    ):
        return [first], aged[0].virtual_start
    batch, longest = [aged[0]], aged[0].cost
    for job in aged[1:]:
        longest = max(longest, job.cost)
        if not _fits(longest, batch, budget):
            return batch, job.virtual_start  # skipping this one again would exceed its bound
        batch.append(job)
    return batch, window[-1].virtual_start


def _next_job(window: list[SentenceJob], budget: int) -> SentenceJob:
    """Return the first interactive job among the first batch's worth of bulk, or else the head.

    A batch of bulk is due when its last sentence is due. If it were due with its first one, an
    interactive request that arrives just after a bulk request would wait for a whole batch of it.
    Background work does not count, since it is never due.
    """
    cost = 0
    for job in window:
        if job.request_cost <= budget:
            return job
        cost += job.cost if job.request_cost < BULK_COST else 0
        if cost >= budget:
            break
    return window[0]


def _fits(longest: int, batch: Sequence[SentenceJob], budget: int) -> bool:
    """Tell whether a batch has room for one more job, where the longest one costs so much."""
    return len(batch) < MAX_SENTENCES and longest * (len(batch) + 1) <= budget


def _fill(batch: list[SentenceJob], rest: Sequence[SentenceJob], budget: int) -> None:
    """Add jobs to a batch while they fit, the nearest in length first; `rest` ascends by cost."""
    start = batch[0].cost
    longest = max(map(_cost, batch))
    split = bisect.bisect_left(rest, start, key=_cost)
    shorter, longer = list(rest[:split]), list(rest[split:][::-1])
    while shorter or longer:
        if longer and (not shorter or longer[-1].cost - start <= start - shorter[-1].cost):
            job = longer.pop()
        else:
            job = shorter.pop()
        if _fits(max(longest, job.cost), batch, budget):
            batch.append(job)
            longest = max(longest, job.cost)
        elif job.cost > longest:
            longer.clear()  # the others are longer still
        else:
            break
