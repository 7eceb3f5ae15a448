"""The throughput estimate follows recent batches and forgets old ones."""

import pytest

from elmo_serve.scheduling.throughput import ThroughputEstimate


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
    assert estimate.seconds(1_000, 1) == pytest.approx(2.0)

    estimate.add(500, 2.0, fullness=1.0)
    assert estimate.is_measured
    assert estimate.seconds(1_000, 1) == pytest.approx(4.0)


def test_workers_share_the_tokens() -> None:
    estimate = ThroughputEstimate(Clock())
    estimate.add(1_000, 2.0, fullness=1.0)

    assert estimate.seconds(3_000, 3) == pytest.approx(2.0)
    assert estimate.seconds(3_000, 0) == pytest.approx(6.0)  # one comes back, or none is needed


def test_small_batches_are_not_counted() -> None:
    estimate = ThroughputEstimate(Clock())
    estimate.add(1_000, 1.0, fullness=1.0)
    estimate.add(10, 1.0, fullness=0.49)

    assert estimate.seconds(1_000, 1) == pytest.approx(1.0)


def test_the_estimate_follows_a_change() -> None:
    estimate = ThroughputEstimate(Clock())
    for _ in range(100):
        estimate.add(1_000, 1.0, fullness=1.0)
    for _ in range(50):
        estimate.add(1_000, 3.0, fullness=1.0)

    assert estimate.seconds(1_000, 1) == pytest.approx(3.0, rel=0.01)


def test_an_old_measurement_is_not_trusted() -> None:
    clock = Clock()
    estimate = ThroughputEstimate(clock)
    estimate.start_from(2e-3)
    estimate.add(1_000, 1_000.0, fullness=1.0)
    clock.now += 61

    assert not estimate.is_measured
    assert estimate.seconds(1_000, 1) == pytest.approx(2.0)
