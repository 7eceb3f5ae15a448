"""Timeouts follow the latency of recent tasks, and a suspended process kills no child."""

import asyncio
import contextvars

import pytest

from elmo_serve.processes.watchdog import (
    EVENT_LOOP_CLOCK,
    BatchBudget,
    LatencyEstimate,
    Timeouts,
    Watchdog,
)
from tests.support.clock import FakeClock

TIMEOUTS = Timeouts(first_batch=60, batch=5)
REQUEST = contextvars.ContextVar("REQUEST", default="none")


def estimate() -> LatencyEstimate:
    return LatencyEstimate(TIMEOUTS, 64)


def test_the_first_task_has_a_fixed_timeout() -> None:
    assert estimate().timeout(1_000) == 60


def test_a_timeout_is_a_multiple_of_the_slowest_recent_task() -> None:
    latency = estimate()
    latency.learn(1_000, 0.8)
    latency.learn(1_000, 0.4)

    assert latency.timeout(1_000) == pytest.approx(8)
    assert latency.timeout(2_000) == pytest.approx(16)


def test_small_tasks_count_as_larger_ones() -> None:
    latency = estimate()
    latency.learn(1, 1.0)

    assert latency.timeout(1) == latency.timeout(64) == pytest.approx(10)


def test_a_warm_up_is_a_lower_bound_of_the_estimate() -> None:
    latency = estimate()
    latency.calibrate(1e-3)
    assert latency.timeout(1_000) == pytest.approx(10)
    latency.learn(1_000, 0.1)

    assert latency.timeout(1_000) == pytest.approx(10)


def test_a_task_that_was_suspended_is_forgotten_after_a_number_of_tasks() -> None:
    latency = estimate()
    latency.learn(64, 10.0)
    for _ in range(31):
        latency.learn(1_000, 0.1)
    assert latency.timeout(1_000) > 1_000
    latency.learn(1_000, 0.1)

    assert latency.timeout(1_000) == 5


class Bench:
    """A watchdog with a fake clock, and the timeouts it has reported."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.reported: list[float] = []
        self.watchdog = Watchdog(self.reported.append, self.clock)


def test_a_timeout_is_reported_once() -> None:
    bench = Bench()
    bench.watchdog.wait(2.0)
    bench.clock.advance(1.9)
    assert bench.reported == []
    bench.clock.advance(100)

    assert bench.reported == [2.0]


def test_a_renewed_wait_replaces_the_one_before() -> None:
    bench = Bench()
    for _ in range(5):
        bench.watchdog.wait(2.0)
        bench.clock.advance(1.9)
    bench.watchdog.cancel()
    bench.clock.advance(100)

    assert bench.reported == []


def test_a_process_that_was_suspended_itself_waits_once_more() -> None:
    bench = Bench()
    bench.watchdog.wait(2.0)
    bench.clock.suspend(60)
    assert bench.reported == []
    bench.clock.advance(1.9)
    assert bench.reported == []
    bench.clock.advance(0.1)

    assert bench.reported == [2.0]


async def test_a_call_is_made_later_in_a_context_of_its_own() -> None:
    called: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    REQUEST.set("one")
    before = EVENT_LOOP_CLOCK.now()
    EVENT_LOOP_CLOCK.call_later(0.01, lambda: called.set_result(REQUEST.get()))
    assert not called.done()

    assert await called == "none"
    assert EVENT_LOOP_CLOCK.now() > before


@pytest.mark.parametrize(
    ("batches", "size"),
    [
        ([-400], 400),
        ([-200, -500], 200),  # the second was cut earlier and tells nothing new
        ([-100, *[100] * 31], 100),
        ([-100, *[100] * 32], 113),
        ([-100, *[50] * 1_000], 100),  # small batches prove nothing
        ([-100, *[100] * 31, -100, 100], 100),  # a failure starts the probation again
        ([-100, *[1_000] * 32 * 40], 1_000),
    ],
)
def test_a_budget_is_limited_after_a_failure_and_grows_after_many_large_batches(
    batches: list[int], size: int
) -> None:
    """A negative number is half of a batch that failed."""
    budget = BatchBudget(1_000)
    for batch in batches:
        if batch < 0:
            budget.limit(-batch)
        else:
            budget.grow(batch)

    assert budget.size == size
