"""The pool tells who gets the next batch, and whether anybody can."""

from __future__ import annotations

import asyncio

import pytest

from elmo_serve.workers.messages import Done, Ready
from elmo_serve.workers.supervisor import HOPELESS_STARTS, LONGEST_OUTAGE_DELAY
from tests.service.workers.test_worker_slot import INFO, Bench


def ready(count: int = 1, seconds_per_token: float = 0.0) -> Bench:
    bench = Bench(count)
    for worker in list(bench.workers):
        worker.say(Ready(INFO, seconds_per_token))
    return bench


async def test_an_idle_worker_takes_whatever_is_queued() -> None:
    bench = ready(2)
    first = bench.pool.free(1)
    assert first is not None
    first.submit(bench.batch(1))
    second = bench.pool.free(1)

    assert second not in (None, first)


async def test_a_worker_that_is_not_ready_takes_nothing() -> None:
    bench = Bench()
    assert bench.pool.free(10_000) is None
    bench.workers[0].say(Ready(INFO))
    bench.workers[0].end("exited with status 1")

    assert bench.pool.free(10_000) is None
    assert bench.pool.free_in(10_000) is None


async def test_the_next_full_batch_is_given_just_before_a_short_one_ends() -> None:
    bench = ready(seconds_per_token=2e-5)  # 20 ms for a full batch
    bench.slot.submit(bench.batch(1))
    assert bench.pool.free(1_000) is None
    assert bench.pool.free_in(1_000) == pytest.approx(0.015)
    assert bench.pool.free_in(999) is None, "it would not be full"
    bench.clock.advance(0.016)
    assert bench.pool.free(1_000) is bench.slot
    bench.slot.submit(bench.batch(2))

    assert bench.pool.free(1_000) is None, "one batch ahead is enough"


async def test_no_batch_is_given_ahead_of_a_long_one() -> None:
    bench = ready(seconds_per_token=1e-4)  # 100 ms for a full batch
    bench.slot.submit(bench.batch(1))
    bench.clock.advance(0.099)

    assert bench.pool.free(1_000) is None
    assert bench.pool.free_in(1_000) is None
    bench.workers[0].say(Done(1, 0.1, 0, 0))
    assert bench.pool.free(1_000) is bench.slot


async def test_the_first_outcome_is_the_first_worker_that_is_ready() -> None:
    bench = Bench(2)
    outcome = asyncio.ensure_future(bench.pool.first_outcome())
    await asyncio.sleep(0)
    bench.workers[0].end("exited with status 1")
    await asyncio.sleep(0)
    assert not outcome.done()
    bench.workers[1].say(Ready(INFO))

    assert await outcome is None
    assert bench.pool.is_ready
    assert bench.pool.info == INFO


async def test_the_first_outcome_is_a_reason_when_every_start_fails() -> None:
    bench = Bench(2)
    for worker in list(bench.workers):
        worker.end("exited with status 1")

    assert await bench.pool.first_outcome() == "the worker exited with status 1"
    assert bench.pool.reason == "cpu: the worker exited with status 1"


async def test_a_pool_is_fit_until_every_slot_is_hopeless() -> None:
    bench = Bench()
    for _ in range(HOPELESS_STARTS):
        assert bench.pool.is_fit
        bench.workers[-1].end("exited with status 1")
        bench.clock.advance(LONGEST_OUTAGE_DELAY)
    assert not bench.pool.is_fit
    bench.workers[-1].say(Ready(INFO))

    assert bench.pool.is_fit


async def test_a_worker_that_dies_as_soon_as_it_is_ready_leaves_the_pool_fit() -> None:
    bench = Bench()
    for _ in range(50):
        bench.workers[-1].say(Ready(INFO))
        bench.workers[-1].end("was killed by SIGKILL")
        assert not bench.pool.is_ready
        assert bench.pool.is_fit
        bench.clock.advance(LONGEST_OUTAGE_DELAY)

    assert len(bench.workers) == 51


async def test_a_pool_that_is_killed_starts_no_worker() -> None:
    bench = ready(2)
    bench.pool.kill()
    bench.clock.advance(1_000)

    assert len(bench.workers) == 2
