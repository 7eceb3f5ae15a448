"""The queue keeps its laws for any calls, in any order of arrivals, departures and batches."""

import asyncio
import random
import statistics
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_serve.output import BOUNDARIES, Output
from elmo_serve.scheduling.fair_queue import FREE_RIDERS, PATIENCE, Batcher
from elmo_serve.scheduling.request import Job, Request

OUTPUT = Output(layers=(0,), stacked=True)
BUDGET = 256

LENGTHS = st.lists(st.integers(0, 120), min_size=1, max_size=40)
# A step of a life: a call of these lengths arrives, or batches of a budget are cut, or some of
# the waiting sentences lose their last client.
STEPS = st.lists(
    st.one_of(
        LENGTHS.map(lambda lengths: ("arrive", lengths)),
        st.tuples(st.just("cut"), st.integers(1, 600)),
        st.tuples(st.just("leave"), st.integers(0, 2**32)),
    ),
    max_size=60,
)


@pytest.fixture(autouse=True, scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Only because a request holds a future."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    asyncio.set_event_loop(None)
    loop.close()


def call(batcher: Batcher, lengths: list[int], now: float = 0.0, pace: float = 1.0) -> list[Job]:
    """Queue one call as the engine does: each sentence is due ``pace`` a token after another."""
    request = Request([None] * len(lengths), asyncio.get_event_loop().create_future(), len(lengths))
    jobs, rank = [], now
    cost = sum(lengths) + BOUNDARIES * len(lengths)
    for index, tokens in enumerate(lengths):
        jobs.append(Job(b"", OUTPUT, tokens, rank, [(request, index)], call=cost))
        rank += pace * jobs[-1].cost
    batcher.add(jobs)
    return jobs


def drain(batcher: Batcher, budget: int = BUDGET) -> list[list[Job]]:
    batches = []
    while batch := batcher.next_batch(budget):
        batches.append(batch)
    return batches


def padded(batch: list[Job]) -> int:
    return max(job.cost for job in batch) * len(batch)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_a_life_of_the_queue(steps: list[tuple[str, object]]) -> None:
    """Budget kept, each sentence once, none that nobody waits for, none late, counts right."""
    batcher = Batcher()
    waiting: list[Job] = []
    served: list[Job] = []  # Job compares by identity
    for now, (step, value) in enumerate(steps):
        if step == "arrive":
            assert isinstance(value, list)
            waiting += call(batcher, value, 20.0 * now)
        elif step == "leave":
            for job in random.Random(value).sample(waiting, len(waiting) // 3):  # type: ignore[arg-type]
                job.waiting.clear()
                batcher.remove(job)
                waiting.remove(job)
        else:
            assert isinstance(value, int)
            batch = batcher.next_batch(value)
            assert bool(batch) == bool(waiting)
            assert len(batch) <= 1 or padded(batch) <= value
            for job in batch:
                assert job.waiting and job not in served
                served.append(job)
                waiting.remove(job)
        assert len(batcher) == len(waiting)
        assert batcher.tokens == sum(job.tokens + BOUNDARIES for job in waiting)
        assert all(job.passed_over <= PATIENCE for job in waiting)
    left = [id(job) for batch in drain(batcher) for job in batch]
    assert sorted(left) == sorted(map(id, waiting))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(200, 600))
def test_no_sentence_is_passed_over_more_often_than_is_said(seed: int, budget: int) -> None:
    """By later ones, that is; under a flood of new calls, counted by hand."""
    source = random.Random(seed)
    batcher, waiting = Batcher(), []
    passed: dict[int, int] = {}
    served = []  # kept, or another job would get its id
    for now in range(80):
        while batcher.tokens < 6 * budget:
            lengths = [source.choice((1, 2, 5, 20, 21, 60, 120)) for _ in range(5)]
            waiting += call(batcher, lengths, float(now))
        batch = batcher.next_batch(budget)
        served += batch
        youngest = max(job.rank for job in batch)
        taken = set(map(id, batch))
        waiting = [job for job in waiting if id(job) not in taken]
        for job in waiting:
            passed[id(job)] = passed.get(id(job), 0) + (job.rank < youngest)
            assert passed[id(job)] <= PATIENCE


def test_a_batch_is_of_like_length() -> None:
    source = random.Random(5)
    batcher, arrived, batches = Batcher(), [], []
    for now in range(300):
        while batcher.tokens < 20 * 1024:
            lengths = [min(120, int(source.lognormvariate(3, 0.7))) for _ in range(20)]
            arrived += call(batcher, lengths, now * 1024.0)
        batches.append(batcher.next_batch(1024))

    in_order_of_arrival: list[list[Job]] = [[]]
    for job in arrived:
        if padded([*in_order_of_arrival[-1], job]) > 1024:
            in_order_of_arrival.append([])
        in_order_of_arrival[-1].append(job)
    assert share(in_order_of_arrival) < 0.45
    assert share(batches) > 0.8


def share(batches: list[list[Job]]) -> float:
    """Return the part of the batches that is not padding."""
    return statistics.mean(sum(job.cost for job in batch) / padded(batch) for batch in batches)


def test_a_batch_is_filled() -> None:
    batcher = Batcher()
    call(batcher, [14] * 1000)

    assert [len(batch) for batch in drain(batcher, 256)][:-1] == [16] * 62


def test_a_sentence_over_the_budget_runs_alone() -> None:
    batcher = Batcher()
    call(batcher, [5, 500, 5])

    assert sorted([job.tokens for job in batch] for batch in drain(batcher)) == [[5, 5], [500]]


def test_a_small_call_does_not_wait_behind_a_bulk_one() -> None:
    batcher = Batcher()
    call(batcher, [30] * 10_000)
    for _ in range(50):
        batcher.next_batch(BUDGET)
    small = call(batcher, [30], 40 * 32.0)[0]

    assert small in batcher.next_batch(BUDGET)


def test_small_calls_do_not_wait_until_a_batch_full_of_bulk_is_computed_with_them() -> None:
    batcher = Batcher()
    call(batcher, [14] * 10_000, pace=8.0)
    for _ in range(5):
        assert padded(batcher.next_batch(1024)) == 1024
    small = [call(batcher, [14], 1.0 + number)[0] for number in range(3)]
    batch, after = batcher.next_batch(1024), batcher.next_batch(1024)

    assert all(job in batch for job in small)
    assert padded(batch) == 1024 // FREE_RIDERS
    assert padded(after) == 1024


@pytest.mark.parametrize(("after", "turn"), [(10, 0), (500, 0), (1_100, 1)])
def test_bulk_goes_before_a_small_call_when_a_whole_batch_of_it_is_due(
    after: int, turn: int
) -> None:
    batcher = Batcher()
    call(batcher, [14] * 10_000, pace=8.0)
    small = call(batcher, [50], 8.0 * after)[0]  # when so many tokens of the other were due
    batches = [batcher.next_batch(1024) for _ in range(2)]

    assert small in batches[turn]
    assert padded(batches[turn]) <= 1024 // FREE_RIDERS
    assert padded(batches[1 - turn]) == 1024


def test_small_calls_fill_a_batch_with_one_another() -> None:
    batcher = Batcher()
    call(batcher, [14] * 10_000, pace=8.0)
    for number in range(200):
        call(batcher, [14], number / 1_000)

    assert padded(batcher.next_batch(1024)) == 1024


@pytest.mark.parametrize("seed", range(5))
def test_a_small_call_of_any_length_does_not_wait_for_bulk_that_was_passed_over(seed: int) -> None:
    source = random.Random(seed)
    batcher = Batcher()
    bulk = call(batcher, [source.randint(0, 120) for _ in range(5_000)], pace=8.0)
    turns_with_some = 0
    for turn in range(160):
        if turn % 8 == 0:
            batcher.next_batch(1024)
        small = call(batcher, [source.randint(0, 120)], 0.0)[0]
        turns_with_some += any(job.passed_over >= PATIENCE for job in bulk)
        assert small in batcher.next_batch(1024)
    assert turns_with_some


def test_calls_that_are_queued_together_share_by_cost() -> None:
    batcher = Batcher()
    long, short = call(batcher, [62] * 200), call(batcher, [14] * 800)  # 12,800 tokens each
    mine = {id(job) for job in long}
    costs = [0, 0]
    for _ in range(40):
        for job in batcher.next_batch(BUDGET):
            costs[id(job) in mine] += job.cost

    assert len(short) == 800
    assert 0.6 < costs[0] / costs[1] < 1.67


def test_a_stream_of_new_calls_does_not_starve_a_bulk_one() -> None:
    batcher = Batcher()
    bulk = call(batcher, [20] * 100)
    rounds = 0
    while bulk and rounds < 100:
        rounds += 1
        call(batcher, [8], 100.0 * rounds)
        call(batcher, [40], 100.0 * rounds)
        batch = batcher.next_batch(BUDGET)
        bulk = [job for job in bulk if job not in batch]

    assert rounds < 40  # all of it is due after 22 rounds


def test_a_sentence_that_an_earlier_call_wants_too_comes_forward() -> None:
    batcher = Batcher()
    jobs = call(batcher, [30] * 1_000)
    wanted = jobs[900]
    batcher.advance(wanted, 0.0)

    assert wanted in batcher.next_batch(BUDGET)
    assert len(batcher) == 1_000 - BUDGET // 32
    assert wanted not in [job for batch in drain(batcher) for job in batch]


def test_an_empty_queue_has_no_batch() -> None:
    batcher = Batcher()
    jobs = call(batcher, [3, 4])
    for job in jobs:
        job.waiting.clear()
        batcher.remove(job)

    assert batcher.next_batch(BUDGET) == []
    assert (len(batcher), batcher.tokens) == (0, 0)
