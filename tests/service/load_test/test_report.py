"""The table of a load test."""

from __future__ import annotations

import re

from rich.console import Console

from elmo_serve.load_test.report import table
from elmo_serve.load_test.run import Measured
from elmo_serve.load_test.saturation import Saturation
from elmo_serve.load_test.tally import Tally


def text(measured: Measured) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table("a title", measured))
    return re.sub(r" +", " ", capture.get())


def phase(name: str, *, lag: float = 0.0) -> Tally:
    tally = Tally(name, 0.0, 2.0, sent=100, answered=99, done=90, done_tokens=9_000, tokens=1_000)
    tally.sent_bytes, tally.received_bytes, tally.compared, tally.worst = 8_000, 4_608_000, 77, 0.25
    tally.latencies.record(0.5)
    tally.lags.record(lag)
    return tally


def test_a_phase_is_a_row() -> None:
    found = text(Measured([phase("8 clients")]))

    assert "a title" in found
    assert "8 clients 45.0 4,500 500.0 500.0 500.0 500.0 500.0 0 " in found
    assert "A token: 8.0 bytes sent, 4,608 bytes received." in found
    assert "Responses compared: 77; largest difference 0.25 of the tolerance." in found


def test_what_is_not_right_is_counted_and_named() -> None:
    tally = phase("x")
    tally.refused.update({503: 1_200, 429: 3})
    tally.late, tally.lost, tally.wrong = 4, 5, 6
    tally.failed.update({500: 7})
    tally.fault("lost: no response")

    found = text(Measured([tally], is_interrupted=True))

    assert "1,203 refused, 4 late, 7 failed, 5 lost, 6 wrong" in found
    assert "x: lost: no response" in found
    assert "Interrupted: the last row is incomplete." in found


def test_a_late_load_generator_is_named() -> None:
    assert "sent late (p99 20 ms" in text(Measured([phase("x", lag=0.02)]))
    assert "sent late" not in text(Measured([phase("x", lag=0.001)]))


def test_saturation_is_one_line() -> None:
    tallies = [phase("10 requests/s"), phase("11 requests/s")]

    both = text(Measured(tallies, Saturation(*tallies)))
    assert "Saturation: 10 requests/s was followed (95% answered right and in time)" in both
    assert "4,500 tokens/s, p99 500.0 ms; 11 requests/s was not." in both
    assert "no limit was found" in text(Measured(tallies, Saturation(tallies[0], None)))
    assert "no rate was followed" in text(Measured(tallies, Saturation(None, tallies[0])))


def test_a_phase_without_answers_has_no_percentiles() -> None:
    found = text(Measured([Tally("dead", 0.0, 1.0, lost=3)]))

    assert "dead 0.0 0 - - - - - 3 lost" in found
