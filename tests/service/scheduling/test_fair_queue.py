"""The queue keeps its laws for any requests, in any order of arrivals, departures and batches."""

import gc
import random
import statistics
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_serve.errors import Unavailable
from elmo_serve.scheduling.fair_queue import (
    AGEING_BOUND,
    BULK_DIVISOR,
    MAX_SENTENCES,
    FairQueue,
)
from elmo_serve.scheduling.request import Request, SentenceJob, halves, padded_tokens
from tests.support.engines import budget_of, request_of, vectors_of

BUDGET = 256
VECTORS = vectors_of(1.0)


def queue_request(
    queue: FairQueue,
    lengths: list[int],
    now: float = 0.0,
    spacing: float = 1.0,
    *,
    is_bulk: bool = False,
) -> list[SentenceJob]:
    """Queue one request; its tokens have virtual start times `spacing` apart."""
    jobs = list(request_of(lengths, now=now, spacing=spacing, is_bulk=is_bulk).jobs())
    queue.add(jobs)
    return jobs


def end(queue: FairQueue, request: Request) -> int:
    """End a request as the engine does when its client leaves; return what was dropped."""
    request.end()
    return queue.withdraw(request)


def drain(queue: FairQueue, budget: int = BUDGET) -> list[list[SentenceJob]]:
    batches = []
    while batch := queue.next_batch(budget):
        batches.append(batch)
    return batches


# A step: an interactive or a bulk request arrives; a batch is cut, maybe an urgent one; the oldest
# batch is done, runs again or fails; a request ends.
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["interactive", "bulk"]),
            st.lists(st.integers(0, 120), min_size=1, max_size=40),
        ),
        st.tuples(st.sampled_from(["cut", "urgent"]), st.integers(1, 600)),
        st.tuples(st.sampled_from(["done", "retry", "fail", "end"]), st.integers(0, 200)),
    ),
    max_size=60,
)


class Life:
    """A queue, its requests and its batches, with accounts of their own."""

    def __init__(self) -> None:
        self.queue = FairQueue()
        self.budget = budget_of()
        self.requests: list[Request] = []
        self.waiting: list[SentenceJob] = []  # for their first batch
        self.retried: list[SentenceJob] = []
        self.running: list[list[SentenceJob]] = []
        self.skipped: Counter[SentenceJob] = Counter()

    def arrive(self, lengths: list[int], now: float, *, is_bulk: bool) -> None:
        request = request_of(lengths, now=now, budget=self.budget, is_bulk=is_bulk)
        jobs = list(request.jobs())
        self.queue.add(jobs)
        self.requests.append(request)
        self.waiting += jobs

    def cut(self, budget: int, *, is_urgent: bool) -> None:
        """Take a batch, which holds each sentence once and skips none too often."""
        expected = [job for job in self.waiting if not (is_urgent and job.request.is_bulk)]
        if is_urgent:
            batch = self.queue.next_interactive(budget)
        else:
            expected += self.retried
            batch = self.queue.next_batch(budget)
        assert bool(batch) == bool(expected)
        assert len(set(batch)) == len(batch)
        assert len(batch) <= 1 or padded_tokens(batch) <= budget
        assert all(job.is_wanted for job in batch)
        if not batch:
            return
        if set(batch) <= set(self.retried):
            self.retried = [job for job in self.retried if job not in batch]
        else:
            assert is_urgent or not self.retried, "batches that run again come first"
            self._skip(batch, is_urgent=is_urgent)
        self.running.append(batch)

    def _skip(self, batch: list[SentenceJob], *, is_urgent: bool) -> None:
        self.waiting = [job for job in self.waiting if job not in batch]  # fails if one is missing
        latest = max(job.virtual_start for job in batch)
        for job in self.waiting:
            if not (is_urgent and job.request.is_bulk):  # bulk is interrupted, not skipped
                self.skipped[job] += job.virtual_start < latest
            assert self.skipped[job] <= AGEING_BOUND

    def finish_oldest(self, how: str) -> None:
        """Let the oldest batch be done, run again or fail."""
        jobs = self.running.pop(0)
        if how == "done":
            for job in jobs:
                job.request.answer(job, VECTORS, 0.0)
        elif how == "retry":
            self.queue.retry(*halves(jobs))
            self.retried += [job for job in jobs if job.is_wanted]
        else:
            for job in jobs:
                job.request.fail(Unavailable("gone", retry_after=1))
                self.end(job.request)

    def end(self, request: Request) -> None:
        """End a request: what waits of it is dropped, and counted once."""
        dropped = end(self.queue, request)
        before = len(self.waiting) + len(self.retried)
        self.waiting = [job for job in self.waiting if job.request is not request]
        self.retried = [job for job in self.retried if job.request is not request]
        assert dropped == before - len(self.waiting) - len(self.retried)

    def check(self) -> None:
        wanted = self.waiting + self.retried
        assert self.queue.sentences == len(wanted)
        assert self.queue.tokens == sum(job.cost for job in wanted)
        interactive = [job for job in self.waiting if not job.request.is_bulk]
        assert self.queue.interactive_sentences == len(interactive)
        assert self.budget.used == sum(request.held.left for request in self.requests)


@settings(max_examples=300)
@given(STEPS)
def test_the_queue_keeps_its_laws_over_its_life(steps: list[tuple[str, object]]) -> None:
    """Batches fit, each wanted sentence comes once, none is skipped too often, counts are right."""
    life = Life()
    for now, (step, value) in enumerate(steps):
        if isinstance(value, list):
            life.arrive(value, 20.0 * now, is_bulk=step == "bulk")
        elif step in ("cut", "urgent"):
            assert isinstance(value, int)
            life.cut(value, is_urgent=step == "urgent")
        elif step == "end" and life.requests:
            assert isinstance(value, int)
            life.end(life.requests[value % len(life.requests)])
        elif life.running:
            life.finish_oldest(step)
        life.check()
    while life.waiting or life.retried:
        life.cut(BUDGET, is_urgent=False)
    while life.running:
        life.finish_oldest("done")
    assert all(request.is_over for request in life.requests)
    assert (life.queue.sentences, life.queue.tokens, life.budget.used) == (0, 0, 0)


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.integers(200, 600))
def test_no_sentence_is_skipped_more_often_than_the_ageing_bound(seed: int, budget: int) -> None:
    """Under a flood of new requests of both classes."""
    source = random.Random(seed)
    life = Life()
    for now in range(80):
        while life.queue.tokens < 6 * budget:
            lengths = [source.choice((1, 2, 5, 20, 21, 60, 120)) for _ in range(5)]
            life.arrive(lengths, float(now), is_bulk=source.random() < 0.5)
        life.cut(budget, is_urgent=False)


# How a batch is composed


def test_sentences_of_a_batch_have_similar_lengths() -> None:
    source = random.Random(5)
    queue, arrived, batches = FairQueue(), [], []
    for now in range(300):
        while queue.tokens < 20 * 1024:
            lengths = [min(120, int(source.lognormvariate(3, 0.7))) for _ in range(20)]
            arrived += queue_request(queue, lengths, now * 1024.0)
        batches.append(queue.next_batch(1024))

    in_order_of_arrival: list[list[SentenceJob]] = [[]]
    for job in arrived:
        if padded_tokens([*in_order_of_arrival[-1], job]) > 1024:
            in_order_of_arrival.append([])
        in_order_of_arrival[-1].append(job)
    assert share(in_order_of_arrival) < 0.45
    assert share(batches) > 0.8


def share(batches: list[list[SentenceJob]]) -> float:
    """Return the share of the batches that is not padding."""
    return statistics.mean(
        sum(job.cost for job in batch) / padded_tokens(batch) for batch in batches
    )


def test_a_batch_is_filled() -> None:
    queue = FairQueue()
    queue_request(queue, [14] * 1000)

    assert [len(batch) for batch in drain(queue, 256)][:-1] == [16] * 62


@pytest.mark.parametrize("tokens", [1, 5])
@pytest.mark.parametrize("is_bulk", [True, False])
def test_a_batch_of_short_sentences_is_bounded_by_their_number(tokens: int, is_bulk: bool) -> None:
    """The event loop stops while it composes and answers a batch."""
    queue = FairQueue()
    queue_request(queue, [tokens] * 3_000, is_bulk=is_bulk)

    sizes = [len(batch) for batch in drain(queue, 100_000)]
    assert sizes == [MAX_SENTENCES, MAX_SENTENCES, 3_000 - 2 * MAX_SENTENCES]


# Interactive and bulk


def test_interactive_requests_get_a_small_batch_before_the_next_bulk_batch() -> None:
    queue = FairQueue()
    queue_request(queue, [14] * 10_000, spacing=8.0, is_bulk=True)
    for _ in range(5):
        assert padded_tokens(queue.next_batch(1024)) == 1024
    small = [queue_request(queue, [14], 1.0 + number)[0] for number in range(3)]
    batch, after = queue.next_batch(1024), queue.next_batch(1024)

    assert all(job in batch for job in small)
    assert padded_tokens(batch) == 1024 // BULK_DIVISOR
    assert padded_tokens(after) == 1024


@pytest.mark.parametrize(("after", "turn"), [(10, 0), (500, 0), (1_100, 1)])
def test_bulk_goes_first_when_a_whole_batch_of_it_is_due_first(after: int, turn: int) -> None:
    queue = FairQueue()
    queue_request(queue, [14] * 10_000, spacing=8.0, is_bulk=True)
    small = queue_request(queue, [50], 8.0 * after)[0]  # after so many tokens of the bulk request
    batches = [queue.next_batch(1024) for _ in range(2)]

    assert small in batches[turn]
    assert padded_tokens(batches[turn]) <= 1024 // BULK_DIVISOR
    assert padded_tokens(batches[1 - turn]) == 1024


def test_a_whole_batch_of_bulk_may_be_short_sentences() -> None:
    queue = FairQueue()
    bulk = queue_request(queue, [1] * 2_000, is_bulk=True)
    queue_request(queue, [50], bulk[MAX_SENTENCES].virtual_start)

    assert queue.next_batch(100_000) == bulk[:MAX_SENTENCES]


def test_interactive_requests_fill_a_batch_together() -> None:
    queue = FairQueue()
    queue_request(queue, [14] * 10_000, spacing=8.0, is_bulk=True)
    for number in range(200):
        queue_request(queue, [14], number / 1_000)

    assert padded_tokens(queue.next_batch(1024)) == 1024


@pytest.mark.parametrize("seed", range(5))
def test_an_interactive_request_of_any_length_does_not_wait_for_aged_bulk(seed: int) -> None:
    source = random.Random(seed)
    queue = FairQueue()
    lengths = [source.randint(0, 120) for _ in range(5_000)]
    bulk = queue_request(queue, lengths, 1.0, spacing=8.0, is_bulk=True)
    turns_with_some = 0
    for turn in range(160):
        if turn % 8 == 0:
            queue.next_batch(1024)
        small = queue_request(queue, [source.randint(0, 120)], 0.0)[0]
        turns_with_some += any(job.times_skipped >= AGEING_BOUND for job in bulk)
        assert small in queue.next_batch(1024)
    assert turns_with_some


def test_equal_requests_that_are_queued_together_progress_equally() -> None:
    queue = FairQueue()
    long = set(queue_request(queue, [62] * 200))
    queue_request(queue, [14] * 800)  # 12,800 tokens each
    costs = [0, 0]
    for _ in range(40):
        for job in queue.next_batch(BUDGET):
            costs[job in long] += job.cost

    assert 0.6 < costs[0] / costs[1] < 1.67


@pytest.mark.parametrize(
    ("count", "most"),
    [
        (100, 40),  # all of it is due after 22 rounds
        (5, 2 * AGEING_BOUND),  # less than a batch: where it is bulk, it is due by its age alone
    ],
)
@pytest.mark.parametrize("is_bulk", [True, False])
def test_a_stream_of_new_requests_starves_nothing(count: int, most: int, is_bulk: bool) -> None:
    queue = FairQueue()
    waiting = queue_request(queue, [20] * count, is_bulk=is_bulk)
    rounds = 0
    while waiting and rounds < most:
        rounds += 1
        queue_request(queue, [8], 100.0 * rounds)
        queue_request(queue, [40], 100.0 * rounds)
        batch = queue.next_batch(BUDGET)
        waiting = [job for job in waiting if job not in batch]

    assert rounds < most


# Batches that run again


def test_retries_run_before_bulk_and_count_beside_it() -> None:
    queue = FairQueue()
    queue_request(queue, [3] * 20, 100.0, is_bulk=True)
    queue_request(queue, [3], 150.0)
    queue.retry(queue.next_batch(20))

    assert (queue.tokens, queue.bulk_tokens) == (105, 80)
    assert queue.due_tokens == pytest.approx(30, abs=5)  # those with a virtual start before 150


# Requests that end


def test_a_request_that_has_ended_and_is_not_withdrawn_yet_is_not_computed() -> None:
    queue = FairQueue()
    ended, other = queue_request(queue, [3] * 12), queue_request(queue, [3] * 2)
    ended[0].request.end()

    assert queue.next_batch(1_000) == other
    assert queue.next_batch(1_000) == []
    assert queue.withdraw(ended[0].request) == 12
    assert (queue.sentences, queue.tokens) == (0, 0)


def living_jobs() -> int:
    """Return the number of jobs in memory."""
    gc.collect()
    return sum(type(each) is SentenceJob for each in gc.get_objects())


def test_removed_sentences_are_freed_before_their_turn() -> None:
    """A client could send and cancel bulk requests for as long as another one is first."""
    before = living_jobs()
    queue = FairQueue()
    first = queue_request(queue, [30] * 500)
    for number in range(40):
        end(queue, queue_request(queue, [5] * 500, 1e6 + number)[0].request)

    assert living_jobs() - before < 3 * len(first)
    assert queue.sentences == len(first)
    assert sum(map(len, drain(queue))) == len(first)
