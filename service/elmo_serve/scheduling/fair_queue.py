"""The queue: who waits, and which sentences run together next."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from operator import attrgetter

from elmo_serve.scheduling.request import Job

_WINDOW_BATCHES = 4
PATIENCE = 3 * _WINDOW_BATCHES
"""How often a sentence is passed over by later ones, at most. Those that have been go together,
whatever their lengths: with less patience for as wide a window that happens all the time."""

FREE_RIDERS = 16
"""A batch of small calls is filled up with bulk to one part in so many of its budget: so few rows
are bound by the weights they are multiplied with, and more of them take about as long as one."""

_rank = attrgetter("rank")
_cost = attrgetter("cost")


class Batcher:
    """Jobs in the order of their rank, which is when they are due, cut into batches of like length.

    A batch starts from the lowest rank and takes its neighbours in length among the next few
    batches' worth of sentences. Among those, no sentence is passed over by later ones more than
    ``PATIENCE`` times: then it goes first, and nothing later than it goes before.

    A call that is more than a batch by itself is bulk. What is not does not wait until a batch full
    of bulk is computed along with it: that one comes next. Nor does it wait for bulk that was
    passed over but is due later.
    """

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._tokens = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def tokens(self) -> int:
        """Cost of all living jobs."""
        return self._tokens

    def tokens_before(self, rank: float) -> float:
        """Return about how many tokens are due before a rank."""
        if not self._jobs:
            return 0.0
        return self._tokens * bisect.bisect_left(self._jobs, rank, key=_rank) / len(self._jobs)

    def add(self, jobs: Iterable[Job]) -> None:
        """Queue jobs; those of one call come with ascending ranks."""
        for job in jobs:
            if not self._jobs or job.rank >= self._jobs[-1].rank:
                self._jobs.append(job)
            else:
                bisect.insort(self._jobs, job, key=_rank)
            self._count += 1
            self._tokens += job.cost

    def remove(self, job: Job) -> None:
        """Take back a job that nobody waits for any more; it is skipped when its turn comes."""
        self._count -= 1
        self._tokens -= job.cost

    def advance(self, job: Job, rank: float) -> None:
        """Give a queued job a lower rank: a call that is before its own waits for it too."""
        index = bisect.bisect_left(self._jobs, job.rank, key=_rank)
        while self._jobs[index] is not job:
            index += 1
        del self._jobs[index]
        job.rank = rank
        bisect.insort(self._jobs, job, key=_rank)

    def next_batch(self, budget: int) -> list[Job]:
        """Cut the next batch: longest cost x count is at most ``budget``, one job always fits."""
        window = self._window(budget)
        if not window:
            return []
        batch = _choose(window, budget)
        taken = set(map(id, batch))
        youngest = max(batch, key=_rank).rank
        kept = [job for job in window if id(job) not in taken]
        for job in kept:
            job.passed_over += job.rank < youngest
        self._jobs[:0] = kept
        self._count -= len(batch)
        self._tokens -= sum(map(_cost, batch))
        return batch

    def _window(self, budget: int) -> list[Job]:
        """Remove the living jobs of the lowest ranks, a few batches' worth, and return them."""
        window, cost, position = [], 0, 0
        for job in self._jobs:
            if cost >= _WINDOW_BATCHES * budget:
                break
            position += 1
            if job.waiting:
                window.append(job)
                cost += job.cost
        del self._jobs[:position]
        return window


def _choose(window: list[Job], budget: int) -> list[Job]:
    """Start from the jobs that must go now, then add neighbours in length while they fit."""
    first = _first(window, budget)
    overdue = [job for job in window if job.passed_over >= PATIENCE]
    batch: list[Job] = []
    longest, bound = 0, window[-1].rank
    if overdue and first.call <= budget < overdue[0].call and first.rank < overdue[0].rank:
        overdue, bound = [], overdue[0].rank
    for job in overdue or [first]:
        if batch and max(longest, job.cost) * (len(batch) + 1) > budget:
            bound = job.rank  # it has waited long enough: nothing later may pass it
            break
        batch.append(job)
        longest = max(longest, job.cost)
    taken = set(map(id, batch))
    rest = [job for job in window if job.rank <= bound and id(job) not in taken]
    rest.sort(key=_cost)  # stable: by rank
    if any(job.call > budget for job in batch):
        _fill(batch, rest, budget)
    else:
        _fill(batch, [job for job in rest if job.call <= budget], budget)
        _fill(batch, [job for job in rest if job.call > budget], budget // FREE_RIDERS)
    return batch


def _first(window: list[Job], budget: int) -> Job:
    """Return whose turn it is: a batch of bulk is due with its last sentence, not with its first.

    Or else whoever comes just after a bulk call would wait for a batch of it.
    """
    cost = 0
    for job in window:
        if job.call <= budget:
            return job
        cost += job.cost
        if cost >= budget:
            break
    return window[0]


def _fill(batch: list[Job], rest: list[Job], budget: int) -> None:
    """Add jobs, given in the order of their length, nearest in length first, while they fit."""
    start = batch[0].cost
    longest = max(map(_cost, batch))
    above = bisect.bisect_left(rest, start, key=_cost)
    shorter, longer = rest[:above], rest[above:][::-1]
    while shorter or longer:
        if longer and (not shorter or longer[-1].cost - start <= start - shorter[-1].cost):
            job = longer.pop()
        else:
            job = shorter.pop()
        if max(longest, job.cost) * (len(batch) + 1) <= budget:
            batch.append(job)
            longest = max(longest, job.cost)
        elif job.cost > longest:
            longer.clear()  # what is longer still does not fit either
        else:
            break
