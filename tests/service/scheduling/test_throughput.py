"""The throughput estimate follows recent batches and forgets old ones."""

import pytest

from elmo_serve.scheduling.throughput import ThroughputEstimate
from tests.support.clock import FakeClock


def test_the_warm_up_counts_until_a_batch_was_measured() -> None:
    estimate = ThroughputEstimate(FakeClock().now)
    estimate.start_from(2e-3)
    estimate.start_from(0.0)  # a worker that measured nothing
    assert not estimate.is_measured
    assert estimate.seconds_per_token == pytest.approx(0.002)

    estimate.add(500, 2.0, fullness=1.0)
    assert estimate.is_measured
    assert estimate.seconds_per_token == pytest.approx(0.004)


def test_no_pace_is_the_best_before_a_batch_confirmed_it() -> None:
    clock = FakeClock()
    estimate = ThroughputEstimate(clock.now)
    estimate.start_from(5e-3)  # of a start that was disturbed
    assert estimate.best_seconds_per_token == 0

    estimate.add(2_000, 1.0, fullness=0.4)
    assert estimate.best_seconds_per_token == 0
    estimate.add(2_000, 1.0, fullness=1.0)
    assert estimate.best_seconds_per_token == pytest.approx(0.0005)
    clock.advance(61)
    assert estimate.best_seconds_per_token == 0


def test_the_best_pace_is_kept_whatever_warm_ups_and_batches_follow() -> None:
    estimate = ThroughputEstimate(FakeClock().now)
    estimate.start_from(2e-3)
    estimate.add(1_400, 7.0, fullness=0.7)  # a long sentence
    assert estimate.best_seconds_per_token == pytest.approx(0.002)

    for _ in range(100):
        estimate.add(2_000, 2.0, fullness=1.0)
    estimate.add(1_400, 7.0, fullness=0.7)
    estimate.start_from(8e-3)  # of a worker that replaces another
    assert estimate.best_seconds_per_token == pytest.approx(0.001, rel=0.01)


def test_an_old_measurement_is_not_trusted() -> None:
    clock = FakeClock()
    estimate = ThroughputEstimate(clock.now)
    estimate.start_from(2e-3)
    estimate.add(1_000, 1_000.0, fullness=1.0)
    clock.advance(61)

    assert not estimate.is_measured
    assert estimate.seconds_per_token == pytest.approx(0.002)
