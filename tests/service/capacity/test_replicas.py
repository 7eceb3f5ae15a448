"""The number of replicas that a load needs."""

from __future__ import annotations

import pytest

from elmo_serve.capacity.batch_time import BatchTime
from elmo_serve.capacity.replicas import SIMULATED, Tried, replicas_for, try_replicas
from elmo_serve.capacity.simulation import Replica, Traffic

SECONDS = 0.05
ALONE = Replica(BatchTime(SECONDS, 0.0), batch_tokens=12)
COST = 12.0
REQUESTS = 700


def one(_: object) -> list[int]:
    return [10]


def test_the_least_number_is_found() -> None:
    traffic = Traffic(2.5 / SECONDS, one)
    tried: list[Tried] = []
    found = replicas_for(ALONE, traffic, COST, 3 * SECONDS, REQUESTS, tried.append)

    assert found is not None
    assert tried[0].replicas == 3, "fewer cannot compute the load"
    assert [each.replicas for each in tried] == list(range(3, found.replicas + 1))
    assert found.is_enough(3 * SECONDS)
    assert not any(each.is_enough(3 * SECONDS) for each in tried[:-1])


def test_a_shorter_p99_needs_more() -> None:
    traffic = Traffic(2.5 / SECONDS, one)
    loose = replicas_for(ALONE, traffic, COST, 10 * SECONDS, REQUESTS)
    tight = replicas_for(ALONE, traffic, COST, 1.5 * SECONDS, REQUESTS)

    assert loose is not None and tight is not None
    assert tight.replicas > loose.replicas


def test_a_p99_below_the_time_of_a_batch_has_no_number() -> None:
    assert replicas_for(ALONE, Traffic(0.5, one), COST, 0.9 * SECONDS, REQUESTS) is None


def test_many_replicas_are_simulated_in_a_group_with_its_share_of_the_load() -> None:
    few = try_replicas(ALONE, SIMULATED, Traffic(0.7 * SIMULATED / SECONDS, one), REQUESTS)
    many = try_replicas(ALONE, 1_000, Traffic(0.7 * 1_000 / SECONDS, one), REQUESTS)

    assert many.replicas == 1_000
    assert many.found.latencies.mean == pytest.approx(few.found.latencies.mean)
