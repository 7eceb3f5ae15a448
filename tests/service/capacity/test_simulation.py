"""The simulation of replicas, against closed forms of queueing theory."""

from __future__ import annotations

import math

import pytest

from elmo_serve.capacity.batch_time import BatchTime
from elmo_serve.capacity.simulation import Replica, Traffic, simulate

SECONDS = 0.05
ALONE = Replica(BatchTime(SECONDS, 0.0), batch_tokens=12)
"""A batch holds one sentence of ten tokens and its two boundaries, and takes 50 ms."""


def one(_: object) -> list[int]:
    return [10]


def waits_at_most(seconds: float, load: float) -> float:
    """Return P(wait <= seconds) of M/D/1 (Erlang 1909), for a service of `SECONDS`."""
    if seconds < 0:
        return 0.0
    rate = load / SECONDS
    terms = (
        (rate * (k * SECONDS - seconds)) ** k
        / math.factorial(k)
        * math.exp(-rate * (k * SECONDS - seconds))
        for k in range(int(seconds / SECONDS) + 1)
    )
    return (1 - load) * sum(terms)


def test_batches_of_one_are_an_m_d_1_queue() -> None:
    load = 0.5
    found = simulate(ALONE, 1, Traffic(load / SECONDS, one), requests=6_000)

    expected = SECONDS + load * SECONDS / (2 * (1 - load))  # Pollaczek and Khinchine
    assert found.latencies.mean == pytest.approx(expected, rel=0.05)
    assert found.busy == pytest.approx(load, rel=0.03)
    assert found.answered == found.sent == 5_400
    for percent in (50, 90, 99):
        wait = found.latencies.percentile(percent) - SECONDS
        assert waits_at_most(wait + 0.05 * SECONDS, load) >= percent / 100 - 0.01
        assert waits_at_most(wait - 0.05 * SECONDS, load) <= percent / 100 + 0.01


def test_two_workers_of_one_replica_are_an_m_d_2_queue() -> None:
    two = Replica(BatchTime(SECONDS, 0.0), batch_tokens=12, workers=2)
    found = simulate(two, 1, Traffic(1.6 / SECONDS, one), requests=6_000)

    assert found.busy == pytest.approx(0.8, rel=0.03)
    assert found.latencies.mean - SECONDS == pytest.approx(mean_wait_m_d_2(0.8), rel=0.08)


def mean_wait_m_d_2(load: float) -> float:
    """Return the mean wait of M/D/2 by Cosmetatos (1976), within 1 % of the exact one."""
    servers = 2
    erlangs = servers * load
    last = erlangs**servers / math.factorial(servers) / (1 - load)
    waits = last / (1 + erlangs + last)
    m_m_2 = waits * SECONDS / (servers * (1 - load))
    correction = 1 + (1 - load) * (servers - 1) * (math.sqrt(4 + 5 * servers) - 2) / (
        16 * load * servers
    )
    return 0.5 * correction * m_m_2


def test_replicas_share_the_load_and_each_has_a_queue_of_its_own() -> None:
    """Three replicas are worse than three workers of one queue, and better than random choice."""
    load, rate = 0.7, 3 * 0.7 / SECONDS
    three = simulate(ALONE, 3, Traffic(rate, one), requests=4_000)
    joint = Replica(BatchTime(SECONDS, 0.0), batch_tokens=12, workers=3)
    one_queue = simulate(joint, 1, Traffic(rate, one), requests=4_000)

    assert three.busy == pytest.approx(load, rel=0.03)
    alone = SECONDS + load * SECONDS / (2 * (1 - load))
    assert one_queue.latencies.mean <= three.latencies.mean < alone


def test_beyond_its_capacity_a_replica_refuses_by_the_rules_of_the_service() -> None:
    small = Replica(BatchTime(SECONDS, 0.0), batch_tokens=12, queue_tokens=60)
    found = simulate(small, 1, Traffic(2 / SECONDS, one), requests=2_000)

    assert found.refused / found.sent == pytest.approx(0.5, abs=0.03)
    assert found.late == 0 and found.busy > 0.98
    assert found.latencies.largest <= 5 * SECONDS * 1.001, "five sentences have room"


def test_a_batch_holds_more_requests_under_load() -> None:
    wide = Replica(BatchTime(SECONDS, 1e-4), batch_tokens=1_200)
    found = simulate(wide, 1, Traffic(10 / SECONDS, one), requests=3_000)

    assert found.answered == found.sent
    assert SECONDS < found.latencies.mean < 2 * (SECONDS + 20 * 12 * 1e-4)


def test_the_overhead_is_part_of_every_latency() -> None:
    late = Replica(BatchTime(SECONDS, 0.0), batch_tokens=12, overhead=2.0)
    usual = simulate(ALONE, 1, Traffic(1.0, one), requests=500)
    found = simulate(late, 1, Traffic(1.0, one), requests=500)

    assert found.latencies.mean == pytest.approx(usual.latencies.mean + 2.0)
