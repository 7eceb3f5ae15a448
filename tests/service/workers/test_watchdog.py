"""What counts as hung is learned, and one's own sleep is nobody's silence."""

import asyncio
import time
from collections.abc import Callable

import pytest

from elmo_serve.workers.watchdog import LatencyEstimate, Timeouts, Watchdog

PATIENCE = Timeouts(first_batch=60, batch=5)


def test_before_anything_was_learned_there_is_a_stated_bound() -> None:
    assert LatencyEstimate(PATIENCE, 64).bound(1_000) == 60


def test_a_bound_is_a_multiple_of_what_was_seen_and_never_too_short() -> None:
    pace = LatencyEstimate(PATIENCE, 64)
    pace.learn(1_000, 0.4)

    assert pace.bound(1_000) == pytest.approx(8)
    assert pace.bound(1_200) == pytest.approx(9.6)
    assert pace.bound(10) == 5


def test_what_takes_long_is_a_smaller_multiple_late() -> None:
    """A worker that hangs should be noticed before those who wait run out of time."""
    pace = LatencyEstimate(PATIENCE, 64)
    pace.learn(1_000, 1.0)

    assert pace.bound(1_000) == 10
    assert pace.bound(5_000) == pytest.approx(20)


def test_a_pace_told_beforehand_holds_until_there_is_a_better_one() -> None:
    pace = LatencyEstimate(PATIENCE, 64)
    pace.start_from(0.0)  # not measured
    assert pace.bound(1_000) == 60
    pace.start_from(3e-4)
    assert pace.bound(1_000) == pytest.approx(6)
    pace.learn(1_000, 0.4)
    pace.start_from(1e-6)
    assert pace.bound(1_000) == pytest.approx(8)


def test_one_small_task_that_was_held_up_does_not_excuse_a_large_one_for_long() -> None:
    pace = LatencyEstimate(PATIENCE, 64)
    pace.learn(1_000, 0.1)
    pace.learn(8, 10.0)
    assert pace.bound(1_000) == pytest.approx(40)  # it may stand still once more
    for _ in range(40):
        pace.learn(1_000, 0.1)

    assert pace.bound(1_000) == 5


def test_lasting_slowness_is_learned() -> None:
    pace = LatencyEstimate(PATIENCE, 64)
    pace.learn(1_000, 0.1)
    for _ in range(6):
        pace.learn(1_000, 4.0)

    assert pace.bound(1_000) == pytest.approx(16)
    assert pace.bound(4_000) == pytest.approx(64)


async def test_silence_is_noticed_once() -> None:
    heard: list[float] = []
    watch = Watchdog(heard.append)
    watch.expect(0.2)
    await until(lambda: bool(heard))
    await asyncio.sleep(0.5)

    assert heard == [0.2]


async def test_what_is_said_in_time_prevents_it() -> None:
    heard: list[float] = []
    watch = Watchdog(heard.append)
    for seconds in (0.3, 0.3, 0.3, 0.3, None):
        watch.expect(seconds)
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.4)

    assert heard == []


async def test_who_was_stopped_himself_waits_once_more() -> None:
    heard: list[float] = []
    watch = Watchdog(heard.append)
    watch.expect(0.2)
    time.sleep(0.6)  # noqa: ASYNC251  # as a whole machine may be
    await asyncio.sleep(0.01)
    assert heard == []
    await until(lambda: bool(heard))

    assert heard == [0.2]


async def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "this never came"
        await asyncio.sleep(0.01)
