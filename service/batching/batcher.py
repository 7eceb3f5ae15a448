"""The queue: who waits, and which sentences run together next."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from operator import attrgetter

from service.batching.job import Job

_WINDOW_BATCHES = 4
_PATIENCE = 2

_rank = attrgetter("rank")
_cost = attrgetter("cost")


class Batcher:
    """Jobs in the order of their rank, cut into batches of like length.

    A call's sentences are ranked as start-time fair queueing does (Goyal, Vin and Cheng 1996): the
    first at the queue's present virtual time, each further one later by the cost before it. So
    calls take turns by what they cost, and a small call does not wait behind a bulk one.

    A batch starts from the lowest rank and takes its neighbours in length among the next few
    batches' worth of sentences. Among those, no sentence is passed over by later ones more than
    twice: then it goes first.
    """

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._now = 0.0
        self._tokens = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def tokens(self) -> int:
        """Cost of all living jobs."""
        return self._tokens

    @property
    def now(self) -> float:
        """The virtual time: the rank that a call arriving now starts from."""
        return self._now

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
        self._now = max(self._now, min(batch, key=_rank).rank)
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
    overdue = [job for job in window if job.passed_over >= _PATIENCE]
    batch: list[Job] = []
    longest = 0
    for job in overdue or window[:1]:
        if batch and max(longest, job.cost) * (len(batch) + 1) > budget:
            break
        batch.append(job)
        longest = max(longest, job.cost)
    taken = set(map(id, batch))
    rest = sorted((job for job in window if id(job) not in taken), key=_cost)  # stable: by rank
    above = bisect.bisect_left(rest, batch[0].cost, key=_cost)
    below = above - 1
    while below >= 0 or above < len(rest):
        shorter = rest[below] if below >= 0 else None
        longer = rest[above] if above < len(rest) else None
        if shorter is None or (
            longer is not None and longer.cost - batch[0].cost <= batch[0].cost - shorter.cost
        ):
            assert longer is not None
            if max(longest, longer.cost) * (len(batch) + 1) > budget:
                if shorter is None:
                    break
                above = len(rest)
                continue
            batch.append(longer)
            longest = max(longest, longer.cost)
            above += 1
        else:
            if longest * (len(batch) + 1) > budget:
                break
            batch.append(shorter)
            below -= 1
    return batch
