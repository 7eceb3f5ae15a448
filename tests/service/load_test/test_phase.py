"""The counts of a phase, and their JSON."""

from __future__ import annotations

import json
import math
from array import array

import pytest

from elmo_serve.load_test.phase import Phase, percentiles


def test_rates_are_those_of_the_window() -> None:
    phase = Phase("8 clients", since=10.0, until=14.0, done=6, done_tokens=600)

    assert (phase.requests_per_second, phase.tokens_per_second) == (1.5, 150)
    assert not phase.is_measured(9.9) and phase.is_measured(10.0) and not phase.is_measured(14.0)


def test_wrong_lost_and_failed_are_bad_and_refused_and_late_are_not() -> None:
    phase = Phase("", late=3)
    phase.refused[503] += 1

    assert not phase.is_bad
    assert Phase("", wrong=1).is_bad and Phase("", lost=1).is_bad
    phase.failed[500] += 1
    assert phase.is_bad


def test_few_faults_are_kept_as_text() -> None:
    phase = Phase("")
    for number in range(100):
        phase.fault(str(number))

    assert phase.faults == ["0", "1", "2", "3", "4"]


def test_percentiles_are_those_of_all_times() -> None:
    assert percentiles(array("d", range(1_000, -1, -1))) == pytest.approx(
        {50.0: 500, 90.0: 900, 99.0: 990, 99.9: 999}
    )
    assert all(map(math.isnan, percentiles(array("d")).values()))


def test_the_json_of_a_phase_has_its_counts() -> None:
    phase = Phase("5 requests/s", 0.0, 2.0, rate=5.0, sent=4, answered=2, tokens=10)
    phase.sent_bytes, phase.received_bytes = 50, 1_000
    phase.refused.update({503: 2})
    phase.latencies.append(0.5)

    found = json.loads(json.dumps(phase.as_json()))

    assert found["load"] == "5 requests/s" and found["offered_rate"] == 5
    assert found["requests"] == {
        "sent": 4,
        "answered": 2,
        "refused": {"503": 2},
        "late": 0,
        "failed": {},
        "lost": 0,
    }
    assert (found["sent_bytes_per_token"], found["received_bytes_per_token"]) == (5, 100)
    assert found["latency_ms"] == dict.fromkeys(("p50", "p90", "p99", "p99.9", "max", "mean"), 500)
