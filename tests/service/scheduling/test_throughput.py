"""The throughput estimate follows recent batches and forgets old ones."""

import pytest

from elmo_serve.scheduling.dispatcher import ThroughputEstimate


class Clock:
    """A clock that a test sets."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_the_warm_up_counts_until_a_batch_was_measured() -> None:
    estimate = ThroughputEstimate(Clock())
    estimate.start_from(2e-3)
    estimate.start_from(0.0)  # a worker that measured nothing
    assert not estimate.is_measured
    assert estimate.seconds_per_token == pytest.approx(0.002)

    estimate.add(500, 2.0, fullness=1.0, longest=10)
    assert estimate.is_measured
    assert estimate.seconds_per_token == pytest.approx(0.004)


def test_the_best_pace_is_that_of_the_warm_up_or_of_batches() -> None:
    estimate = ThroughputEstimate(Clock())
    estimate.start_from(2e-3)
    estimate.add(1_400, 7.0, fullness=0.7, longest=1_400)  # a long sentence
    assert estimate.fastest_seconds_per_token == pytest.approx(0.002)

    for _ in range(100):
        estimate.add(2_000, 2.0, fullness=1.0, longest=50)
    assert estimate.fastest_seconds_per_token == pytest.approx(0.001, rel=0.01)


def test_the_best_pace_is_kept_after_a_slow_warm_up() -> None:
    clock = Clock()
    estimate = ThroughputEstimate(clock)
    estimate.start_from(9e-3)  # disturbed
    estimate.add(2_000, 2.0, fullness=1.0, longest=50)
    estimate.add(1_400, 7.0, fullness=0.7, longest=1_400)
    clock.now += 61
    estimate.start_from(8e-3)  # of a worker that replaces another

    assert estimate.fastest_seconds_per_token == pytest.approx(0.001)


def test_small_batches_are_not_counted() -> None:
    estimate = ThroughputEstimate(Clock())
    estimate.add(1_000, 1.0, fullness=1.0, longest=10)
    estimate.add(10, 1.0, fullness=0.49, longest=10)

    assert estimate.seconds_per_token == pytest.approx(0.001)


def test_the_estimate_follows_a_change() -> None:
    estimate = ThroughputEstimate(Clock())
    for _ in range(100):
        estimate.add(1_000, 1.0, fullness=1.0, longest=10)
    for _ in range(50):
        estimate.add(1_000, 3.0, fullness=1.0, longest=10)

    assert estimate.seconds_per_token == pytest.approx(0.003, rel=0.01)


def test_an_old_measurement_is_not_trusted() -> None:
    clock = Clock()
    estimate = ThroughputEstimate(clock)
    estimate.start_from(2e-3)
    estimate.add(1_000, 1_000.0, fullness=1.0, longest=10)
    clock.now += 61

    assert not estimate.is_measured
    assert estimate.seconds_per_token == pytest.approx(0.002)


def test_a_batch_corrects_a_warm_up_that_was_disturbed() -> None:
    """Else a long sentence would be refused for ever: one that is refused is never measured."""
    estimate = ThroughputEstimate(Clock())
    estimate.start_from(1e-3, seconds_per_step=50e-3)

    estimate.add(20, 0.1, fullness=0.02, longest=20)
    assert estimate.seconds_per_step == 0.1 / 20
    estimate.add(640, 1.0, fullness=0.7, longest=10)  # many rows: slower steps
    assert estimate.seconds_per_step == 0.1 / 20
