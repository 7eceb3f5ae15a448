"""The histogram of latencies: percentiles within 0.1 % of those of all values."""

from __future__ import annotations

import math
import random

import pytest

from elmo_serve.load_test.latencies import Latencies


@pytest.mark.parametrize("percent", [0.0, 50.0, 90.0, 99.0, 99.9, 100.0])
def test_a_percentile_is_within_a_thousandth_of_the_exact_one(percent: float) -> None:
    source = random.Random(4)
    values = [source.lognormvariate(-3, 2) for _ in range(5_000)]
    latencies = Latencies()
    for value in values:
        latencies.record(value)

    exact = sorted(values)[max(1, math.ceil(percent / 100 * len(values) - 1e-9)) - 1]

    assert exact <= latencies.percentile(percent) <= exact * 1.0011
    assert latencies.largest == max(values)
    assert latencies.count == len(values)
    assert latencies.mean == pytest.approx(sum(values) / len(values))


def test_without_a_latency_nothing_is_known() -> None:
    assert math.isnan(Latencies().percentile(50))
    assert all(math.isnan(found) for found in Latencies().milliseconds().values())


def test_values_beyond_the_ends_count_there() -> None:
    latencies = Latencies()
    for seconds in (0.0, -1.0, 1e9):
        latencies.record(seconds)

    assert latencies.percentile(50) <= 1.1e-6
    assert latencies.largest == 1e9


def test_milliseconds_have_names() -> None:
    latencies = Latencies()
    latencies.record(0.25)

    assert latencies.milliseconds() == {
        name: pytest.approx(250) for name in ("p50", "p90", "p99", "p99.9", "max", "mean")
    }
