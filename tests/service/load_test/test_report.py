"""The table of a load test."""

from __future__ import annotations

import re

from rich.console import Console

from elmo_serve.load_test.phase import Phase
from elmo_serve.load_test.report import as_json, table


def text(*phases: Phase) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table("a title", phases))
    return re.sub(r" +", " ", capture.get())


def phase(name: str, *, lag: float = 0.0) -> Phase:
    found = Phase(name, 0.0, 2.0, sent=100, answered=99, done=90, done_tokens=9_000)
    found.responses, found.tokens = 10, 1_000
    found.sent_bytes, found.received_bytes, found.compared, found.worst = 8_000, 4_608_000, 77, 0.25
    found.latencies.append(0.5)
    found.lags.append(lag)
    return found


def test_a_phase_is_a_row() -> None:
    found = text(phase("8 clients"))

    assert "a title" in found
    assert "8 clients 45.0 4,500 500.0 500.0 500.0 500.0 500.0 0 " in found
    assert "A token: 8.0 bytes sent, 4,608 bytes received." in found
    assert "Responses compared: 77; largest difference 0.25 of the tolerance." in found


def test_that_nothing_was_compared_is_said() -> None:
    found = phase("8 clients")
    found.compared = 0

    assert "Responses compared: 0; no request was answered twice, so no vector was" in text(found)
    assert "Responses compared: 77" in text(found, phase("16 clients"))


def test_what_is_not_right_is_counted_and_named() -> None:
    bad = phase("x")
    bad.is_interrupted = True
    bad.refused.update({503: 1_200, 429: 3})
    bad.late, bad.lost, bad.wrong = 4, 5, 6
    bad.failed.update({500: 7})
    bad.fault("lost: no response")

    found = text(bad)

    assert "1,203 refused, 4 late, 7 failed, 5 lost, 6 wrong" in found
    assert "x: lost: no response" in found
    assert "Interrupted: the last row is incomplete." in found


def test_a_late_load_generator_is_named() -> None:
    assert "sent late (p99 20 ms" in text(phase("x", lag=0.02))
    assert "sent late" not in text(phase("x", lag=0.001))


def test_a_rate_has_its_number_of_servers() -> None:
    """Peak tokens/s / (measured tokens/s x 0.8), rounded up: 1,000 and 25,000 of 4,500."""
    low, high = phase("10 requests/s"), phase("250 requests/s")
    low.rate, high.rate = 10.0, 250.0
    closed = phase("1 client")

    assert "10 requests/s at the peak need at most 1 such server, each used" in text(low)
    found = text(closed, low, high)
    assert (
        "250 requests/s at the peak need at most 7 such servers, each used to 80% of 4,500 "
        "tokens/s, the most measured here."
    ) in found
    hint = "No load filled the batches: add --clients 64, and fewer servers may be enough."
    assert hint in text(low) and hint not in found
    assert [each["servers"] for each in as_json([closed, low, high])["phases"]] == [None, 1, 7]


def test_without_an_answer_no_number_of_servers_is_known() -> None:
    dead = Phase("9 requests/s", 0.0, 1.0, rate=9.0, lost=3)

    assert "such server" not in text(dead)
    assert as_json([dead])["phases"][0]["servers"] is None


def test_a_phase_is_too_short_only_where_nothing_came_in_time() -> None:
    slow, refused, interrupted = (Phase(name, 0.0, 1.0, sent=1, answered=1) for name in "abc")
    refused.refused.update({429: 1})
    interrupted.is_interrupted = True

    found = [each.is_too_short for each in (slow, refused, interrupted, phase("8 clients"))]

    assert found == [True, False, False, False]


def test_a_phase_without_answers_has_no_percentiles() -> None:
    found = text(Phase("dead", 0.0, 1.0, lost=3))

    assert "dead 0.0 0 - - - - - 3 lost" in found
