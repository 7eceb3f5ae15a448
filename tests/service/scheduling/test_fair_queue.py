"""The queue keeps its laws for any requests, in any order of arrivals, departures and batches."""

import gc
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_model.text.batches import BOUNDARIES
from elmo_serve.scheduling.fair_queue import AGEING_BOUND, BULK_DIVISOR, FairQueue
from elmo_serve.scheduling.request import SentenceJob
from tests.support.requests import OUTPUT, request_of

BUDGET = 256

LENGTHS = st.lists(st.integers(0, 120), min_size=1, max_size=40)
# A step: a request with sentences of these lengths arrives, or a batch of a budget is cut, or some
# of the waiting sentences lose the last request that waits for them.
STEPS = st.lists(
    st.one_of(
        LENGTHS.map(lambda lengths: ("arrive", lengths)),
        st.tuples(st.just("cut"), st.integers(1, 600)),
        st.tuples(st.just("leave"), st.integers(0, 2**32)),
    ),
    max_size=60,
)


def queue_request(
    queue: FairQueue,
    lengths: list[int],
    now: float = 0.0,
    spacing: float = 1.0,
    *,
    is_bulk: bool = False,
) -> list[SentenceJob]:
    """Queue one request; its tokens have virtual start times `spacing` apart."""
    request, jobs, virtual_start = request_of(lengths, is_bulk=is_bulk), [], now
    for index, tokens in enumerate(lengths):
        job = SentenceJob(b"", OUTPUT, tokens, virtual_start, request.cost)
        job.add(request, index)
        jobs.append(job)
        virtual_start += spacing * job.cost
    queue.add(jobs)
    return jobs


def drain(queue: FairQueue, budget: int = BUDGET) -> list[list[SentenceJob]]:
    batches = []
    while batch := queue.next_batch(budget):
        batches.append(batch)
    return batches


def padded(batch: list[SentenceJob]) -> int:
    return max(job.cost for job in batch) * len(batch)


@settings(max_examples=300)
@given(STEPS)
def test_the_queue_keeps_its_laws_over_its_life(steps: list[tuple[str, object]]) -> None:
    """Batches fit, each wanted sentence comes once, none is skipped too often, counts are right."""
    queue = FairQueue()
    waiting: list[SentenceJob] = []
    served: list[SentenceJob] = []  # jobs compare by identity
    for now, (step, value) in enumerate(steps):
        if step == "arrive":
            assert isinstance(value, list)
            waiting += queue_request(queue, value, 20.0 * now)
        elif step == "leave":
            for job in random.Random(value).sample(waiting, len(waiting) // 3):  # type: ignore[arg-type]
                job.waiting.clear()
                queue.remove(job)
                waiting.remove(job)
        else:
            assert isinstance(value, int)
            batch = queue.next_batch(value)
            assert bool(batch) == bool(waiting)
            assert len(batch) <= 1 or padded(batch) <= value
            for job in batch:
                assert job.waiting and job not in served
                served.append(job)
                waiting.remove(job)
        assert len(queue) == len(waiting)
        assert queue.tokens == sum(job.tokens + BOUNDARIES for job in waiting)
        assert all(job.times_skipped <= AGEING_BOUND for job in waiting)
    left = [id(job) for batch in drain(queue) for job in batch]
    assert sorted(left) == sorted(map(id, waiting))


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.integers(200, 600))
def test_no_sentence_is_skipped_more_often_than_the_ageing_bound(seed: int, budget: int) -> None:
    """Under a flood of new requests; skipped for later sentences, counted independently."""
    source = random.Random(seed)
    queue, waiting = FairQueue(), []
    passed: dict[int, int] = {}
    served = []  # kept alive, so that no other job gets the id
    for now in range(80):
        while queue.tokens < 6 * budget:
            lengths = [source.choice((1, 2, 5, 20, 21, 60, 120)) for _ in range(5)]
            waiting += queue_request(queue, lengths, float(now))
        batch = queue.next_batch(budget)
        served += batch
        youngest = max(job.virtual_start for job in batch)
        taken = set(map(id, batch))
        waiting = [job for job in waiting if id(job) not in taken]
        for job in waiting:
            passed[id(job)] = passed.get(id(job), 0) + (job.virtual_start < youngest)
            assert passed[id(job)] <= AGEING_BOUND


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
        if padded([*in_order_of_arrival[-1], job]) > 1024:
            in_order_of_arrival.append([])
        in_order_of_arrival[-1].append(job)
    assert share(in_order_of_arrival) < 0.45
    assert share(batches) > 0.8


def share(batches: list[list[SentenceJob]]) -> float:
    """Return the share of the batches that is not padding."""
    return statistics.mean(sum(job.cost for job in batch) / padded(batch) for batch in batches)


def test_a_batch_is_filled() -> None:
    queue = FairQueue()
    queue_request(queue, [14] * 1000)

    assert [len(batch) for batch in drain(queue, 256)][:-1] == [16] * 62


@pytest.mark.parametrize("tokens", [1, 5])
def test_a_batch_of_short_sentences_is_bounded_by_their_number(tokens: int) -> None:
    """The event loop stops while it composes and answers a batch."""
    queue = FairQueue()
    queue_request(queue, [tokens] * 3_000)

    assert [len(batch) for batch in drain(queue, 100_000)] == [1_024, 1_024, 952]


def test_a_sentence_over_the_budget_runs_alone() -> None:
    queue = FairQueue()
    queue_request(queue, [5, 500, 5])

    assert sorted([job.tokens for job in batch] for batch in drain(queue)) == [[5, 5], [500]]


def test_a_short_request_does_not_wait_behind_a_bulk_request() -> None:
    queue = FairQueue()
    queue_request(queue, [30] * 10_000)
    for _ in range(50):
        queue.next_batch(BUDGET)
    small = queue_request(queue, [30], 40 * 32.0)[0]

    assert small in queue.next_batch(BUDGET)


def test_interactive_requests_get_a_small_batch_before_the_next_bulk_batch() -> None:
    queue = FairQueue()
    queue_request(queue, [14] * 10_000, spacing=8.0)
    for _ in range(5):
        assert padded(queue.next_batch(1024)) == 1024
    small = [queue_request(queue, [14], 1.0 + number)[0] for number in range(3)]
    batch, after = queue.next_batch(1024), queue.next_batch(1024)

    assert all(job in batch for job in small)
    assert padded(batch) == 1024 // BULK_DIVISOR
    assert padded(after) == 1024


@pytest.mark.parametrize(("after", "turn"), [(10, 0), (500, 0), (1_100, 1)])
def test_bulk_goes_first_when_a_whole_batch_of_it_is_due_first(after: int, turn: int) -> None:
    queue = FairQueue()
    queue_request(queue, [14] * 10_000, spacing=8.0)
    small = queue_request(queue, [50], 8.0 * after)[0]  # after so many tokens of the bulk request
    batches = [queue.next_batch(1024) for _ in range(2)]

    assert small in batches[turn]
    assert padded(batches[turn]) <= 1024 // BULK_DIVISOR
    assert padded(batches[1 - turn]) == 1024


@pytest.mark.parametrize("after", [10, 500, 1_100, 4_000])
def test_background_work_is_never_due_before_an_interactive_request(after: int) -> None:
    queue = FairQueue()
    queue_request(queue, [14] * 200, spacing=8.0, is_bulk=True)
    small = queue_request(queue, [50], 8.0 * after)[0]  # after so many tokens of the background

    assert small in queue.next_batch(1024)
    assert padded(queue.next_batch(1024)) == 1024


def test_interactive_requests_fill_a_batch_together() -> None:
    queue = FairQueue()
    queue_request(queue, [14] * 10_000, spacing=8.0)
    for number in range(200):
        queue_request(queue, [14], number / 1_000)

    assert padded(queue.next_batch(1024)) == 1024


@pytest.mark.parametrize("seed", range(5))
def test_an_interactive_request_of_any_length_does_not_wait_for_aged_bulk(seed: int) -> None:
    source = random.Random(seed)
    queue = FairQueue()
    bulk = queue_request(queue, [source.randint(0, 120) for _ in range(5_000)], spacing=8.0)
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
    long, short = (
        queue_request(queue, [62] * 200),
        queue_request(queue, [14] * 800),
    )  # 12,800 tokens each
    mine = {id(job) for job in long}
    costs = [0, 0]
    for _ in range(40):
        for job in queue.next_batch(BUDGET):
            costs[id(job) in mine] += job.cost

    assert len(short) == 800
    assert 0.6 < costs[0] / costs[1] < 1.67


@pytest.mark.parametrize(
    ("is_bulk", "most"),
    [
        (False, 40),  # all of it is due after 22 rounds
        (True, 200),  # it is due by its age alone
    ],
)
def test_a_stream_of_new_requests_does_not_starve_a_bulk_request(is_bulk: bool, most: int) -> None:
    queue = FairQueue()
    bulk = queue_request(queue, [20] * 100, is_bulk=is_bulk)
    rounds = 0
    while bulk and rounds < most:
        rounds += 1
        queue_request(queue, [8], 100.0 * rounds)
        queue_request(queue, [40], 100.0 * rounds)
        batch = queue.next_batch(BUDGET)
        bulk = [job for job in bulk if job not in batch]

    assert rounds < most


def test_an_advanced_sentence_comes_next() -> None:
    queue = FairQueue()
    jobs = queue_request(queue, [30] * 1_000)
    wanted = jobs[900]
    queue.advance(wanted, 0.0)

    assert wanted in queue.next_batch(BUDGET)
    assert len(queue) == 1_000 - BUDGET // 32
    assert wanted not in [job for batch in drain(queue) for job in batch]


def test_an_empty_queue_has_no_batch() -> None:
    queue = FairQueue()
    jobs = queue_request(queue, [3, 4])
    for job in jobs:
        job.waiting.clear()
        queue.remove(job)

    assert queue.next_batch(BUDGET) == []
    assert (len(queue), queue.tokens) == (0, 0)


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
        for job in queue_request(queue, [5] * 500, 1e6 + number):
            job.waiting.clear()
            queue.remove(job)
    del job

    assert living_jobs() - before < 3 * len(first)
    assert len(queue) == len(first)
    assert queue.tokens_before(0.0) == 0
    assert sum(map(len, drain(queue))) == len(first)
