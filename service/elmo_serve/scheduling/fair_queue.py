"""The queue of one model: the order in which sentences run, and which of them share a batch."""

from __future__ import annotations

import bisect
import math
from collections import deque
from collections.abc import Iterable, Sequence
from operator import attrgetter

from elmo_serve.scheduling.request import Request, SentenceJob, halves, padded_tokens

MAX_SENTENCES = 1024
"""Sentences in a batch at most. Composing and answering a batch takes the event loop some 10 us a
sentence, and a batch of a GPU has room for five times as many of one word. Raising it stops the
event loop for longer."""

_WINDOW_BATCHES = 4
"""Batches' worth of sentences at the head of the queue among which a batch is composed. Raising it
gives less padding and a less strict order."""

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

    Sentences are sorted by their virtual start times. Those of a request are spread over the time
    that the request may take, so a short request overtakes an earlier long one, and nothing
    starves.

    A batch starts from the earliest sentence and takes others of similar length from a window at
    the head of the queue. A sentence is skipped at most `AGEING_BOUND` times.

    Interactive and bulk sentences run in separate batches. An interactive batch runs first, unless
    a whole batch of bulk, or a bulk sentence at the ageing bound, has earlier virtual start times.
    Retries run before all others.
    """

    def __init__(self) -> None:
        self._interactive = _SortedJobs()
        self._bulk = _SortedJobs()
        self._retries: deque[list[SentenceJob]] = deque()

    @property
    def sentences(self) -> int:
        """The number of sentences that wait for a worker."""
        retries = sum(map(len, self._retries))
        return self._interactive.count + self._bulk.count + retries

    @property
    def interactive_sentences(self) -> int:
        """The number of interactive sentences that wait for their first batch."""
        return self._interactive.count

    @property
    def tokens(self) -> int:
        """The work of all sentences that wait, in tokens of vectors with boundaries."""
        return self._interactive.tokens + self._bulk.tokens + self._retry_tokens

    @property
    def _retry_tokens(self) -> int:
        # A copy: the metrics are read by another thread.
        return sum(job.work for jobs in tuple(self._retries) for job in jobs)

    @property
    def bulk_tokens(self) -> int:
        """The part of `tokens` that is bulk and waits for its first batch."""
        return self._bulk.tokens

    @property
    def due_tokens(self) -> float:
        """An estimate of the part of `bulk_tokens` that comes before an interactive sentence."""
        return self._bulk.tokens_before(self._interactive.end)

    def add(self, jobs: Iterable[SentenceJob]) -> None:
        """Queue jobs of requests, fastest in ascending order of their virtual start."""
        for job in jobs:
            self._lane_of(job.request).add(job)

    def withdraw(self, request: Request) -> int:
        """Drop the sentences of an ended request; return how many there were."""
        before = self.sentences
        self._lane_of(request).withdraw(request)
        kept = ([job for job in jobs if job.request is not request] for jobs in self._retries)
        self._retries = deque(filter(None, kept))
        return before - self.sentences

    def retry(self, *batches: Sequence[SentenceJob]) -> None:
        """Run these batches again, in this order, without sentences of ended requests."""
        for jobs in reversed(batches):
            if wanted := [job for job in jobs if job.is_wanted]:
                self._retries.appendleft(wanted)

    def next_batch(self, budget: int) -> list[SentenceJob]:
        """Remove the jobs of the next batch and return them; an empty list if there is none.

        The padded size (longest cost x number of jobs) is at most `budget` tokens, except that a
        single job always fits.
        """
        if self._retries:
            return self._next_retry(budget)
        interactive, interactive_end = self._interactive.window(budget)
        bulk, bulk_end = self._bulk.window(budget)
        if not interactive and not bulk:
            return []
        # Only sentences up to `end` may join: a later one would overtake a sentence outside the
        # window or one at its ageing bound.
        end = min(interactive_end, bulk_end)
        next_interactive = interactive[0].virtual_start if interactive else math.inf
        if min(_first_aged(bulk), _batch_end(bulk, budget)) <= next_interactive:
            end = min(end, _first_aged(interactive))
            batch = _compose(_until(bulk, end), [], budget)
        else:
            end = min(end, _first_aged(bulk))
            batch = _compose(_until(interactive, end), _until(bulk, end), budget)
        latest = max(map(_virtual_start, batch))
        self._interactive.take(interactive, set(batch), latest)
        self._bulk.take(bulk, set(batch), latest)
        return batch

    def next_interactive(self, budget: int) -> list[SentenceJob]:
        """Remove and return a batch of interactive jobs, even if bulk has earlier start times."""
        window, _ = self._interactive.window(budget)
        batch = _compose(window, [], budget) if window else []
        self._interactive.take(window, set(batch), max(map(_virtual_start, batch), default=0.0))
        return batch

    def _next_retry(self, budget: int) -> list[SentenceJob]:
        jobs = self._retries.popleft()
        while len(jobs) > 1 and padded_tokens(jobs) > budget:  # budgets differ, and shrink
            jobs, second = halves(jobs)
            self._retries.appendleft(second)
        return jobs

    def _lane_of(self, request: Request) -> _SortedJobs:
        return self._bulk if request.is_bulk else self._interactive


class _SortedJobs:
    """The jobs of one class, sorted by virtual start.

    Jobs of ended requests are not counted. They stay in the list until their turn comes or until
    they are half of it, because deleting them at once takes time in proportion to the queue.
    """

    def __init__(self) -> None:
        self._jobs: list[SentenceJob] = []
        self.count = 0
        self.tokens = 0

    @property
    def end(self) -> float:
        """The virtual start of the last job."""
        return self._jobs[-1].virtual_start if self._jobs else -math.inf

    def tokens_before(self, virtual_time: float) -> float:
        """Estimate the tokens of the jobs that start before a virtual time."""
        if not self._jobs:
            return 0.0
        position = bisect.bisect_left(self._jobs, virtual_time, key=_virtual_start)
        return self.tokens * position / len(self._jobs)

    def add(self, job: SentenceJob) -> None:
        if not self._jobs or job.virtual_start >= self._jobs[-1].virtual_start:
            self._jobs.append(job)
        else:
            bisect.insort(self._jobs, job, key=_virtual_start)
        self._count(job, 1)

    def withdraw(self, request: Request) -> None:
        self.count -= request.queued_sentences
        self.tokens -= request.queued_tokens
        request.queued_sentences = request.queued_tokens = 0
        if len(self._jobs) > 2 * self.count:
            self._jobs = [job for job in self._jobs if job.is_wanted]

    def window(self, budget: int) -> tuple[list[SentenceJob], float]:
        """Return the jobs at the head, and the virtual start up to which none is left out."""
        window: list[SentenceJob] = []
        cost = position = 0
        end = math.inf
        for job in self._jobs:
            if cost >= _WINDOW_BATCHES * budget or len(window) >= _WINDOW_BATCHES * MAX_SENTENCES:
                end = window[-1].virtual_start
                break
            position += 1
            if job.is_wanted:
                window.append(job)
                cost += job.cost
        self._jobs[:position] = window
        return window, end

    def take(self, window: list[SentenceJob], batch: set[SentenceJob], latest: float) -> None:
        """Remove the jobs of a batch from the window, and count the others that it skips."""
        kept = []
        for job in window:
            if job in batch:
                self._count(job, -1)
            else:
                job.times_skipped += job.virtual_start < latest
                kept.append(job)
        self._jobs[: len(window)] = kept

    def _count(self, job: SentenceJob, number: int) -> None:
        self.count += number
        self.tokens += number * job.work
        job.request.queued_sentences += number
        job.request.queued_tokens += number * job.work


def _until(window: list[SentenceJob], end: float) -> list[SentenceJob]:
    """Return the jobs up to a virtual start time."""
    return window[: bisect.bisect_right(window, end, key=_virtual_start)]


def _first_aged(window: list[SentenceJob]) -> float:
    """Return the virtual start of the first job that has reached the ageing bound."""
    return next(
        (job.virtual_start for job in window if job.times_skipped >= AGEING_BOUND), math.inf
    )


def _batch_end(bulk: list[SentenceJob], budget: int) -> float:
    """Return the virtual start of the last job of the next batch's worth; infinity for less.

    The first job would be too early: an interactive request that arrives just after a bulk request
    would wait for a whole batch of it.
    """
    cost = 0
    for count, job in enumerate(bulk, 1):
        cost += job.cost
        if cost >= budget or count >= MAX_SENTENCES:
            return float(job.virtual_start)
    return math.inf


def _compose(window: list[SentenceJob], bulk: list[SentenceJob], budget: int) -> list[SentenceJob]:
    """Return the jobs of a window that must run now, others of similar length, and some bulk."""
    batch, latest = _must_run(window, budget)
    taken = set(batch)
    rest = [job for job in _until(window, latest) if job not in taken]
    _fill(batch, sorted(rest, key=_cost), budget)  # stable: equal lengths stay in their order
    _fill(batch, sorted(_until(bulk, latest), key=_cost), budget // BULK_DIVISOR)
    return batch


def _must_run(window: list[SentenceJob], budget: int) -> tuple[list[SentenceJob], float]:
    """Return the jobs that start a batch, and the latest virtual start of any job added to it.

    They are the jobs that have reached the ageing bound, as many as fit, or else the next job.
    """
    aged = [job for job in window if job.times_skipped >= AGEING_BOUND] or window[:1]
    batch, longest = aged[:1], aged[0].cost
    for job in aged[1:]:
        longest = max(longest, job.cost)
        if not _fits(longest, batch, budget):
            return batch, job.virtual_start  # skipping this one again would exceed its bound
        batch.append(job)
    return batch, math.inf


def _fits(longest: int, batch: Sequence[SentenceJob], budget: int) -> bool:
    """Tell whether a batch has room for one more job, when its longest job costs `longest`."""
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
