"""The counts of a phase, and their JSON."""

from __future__ import annotations

import json

from elmo_serve.load_test.tally import Tally


def test_rates_are_those_of_the_window() -> None:
    tally = Tally("8 clients", since=10.0, until=14.0, sent=8, done=6, done_tokens=600)

    assert tally.requests_per_second == 1.5
    assert tally.tokens_per_second == 150
    assert not tally.is_measured(9.9) and tally.is_measured(10.0) and not tally.is_measured(14.0)


def test_wrong_lost_and_failed_are_bad_and_refused_and_late_are_not() -> None:
    tally = Tally("", 0.0, 1.0, late=3)
    tally.refused[503] += 1

    assert not tally.is_bad
    assert Tally("", 0.0, 1.0, wrong=1).is_bad and Tally("", 0.0, 1.0, lost=1).is_bad
    tally.failed[500] += 1
    assert tally.is_bad


def test_few_faults_are_kept_as_text() -> None:
    tally = Tally("", 0.0, 1.0)
    for number in range(100):
        tally.fault(str(number))

    assert tally.faults == ["0", "1", "2", "3", "4"]


def test_the_json_of_a_phase_has_its_counts() -> None:
    tally = Tally("5 requests/s", 0.0, 2.0, rate=5.0, sent=4, answered=2, tokens=10)
    tally.sent_bytes, tally.received_bytes = 50, 1_000
    tally.refused.update({503: 2})
    tally.latencies.record(0.5)

    found = json.loads(json.dumps(tally.as_json()))

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
    assert found["latency_ms"]["max"] == 500
