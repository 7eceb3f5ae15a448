"""A silent child is reported, and no standstill of a machine counts as the silence of a child."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from elmo_serve.processes.heartbeat import SILENT_SECONDS, Alive, Heartbeat
from elmo_serve.processes.limits import Watchdog
from tests.support.clock import FakeClock


class Bench:
    """A watchdog on a fake clock, and the silences that it has reported."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.reported: list[float] = []
        self.watchdog = Watchdog(self.reported.append, self.clock)


def test_a_silence_is_reported_once() -> None:
    bench = Bench()
    bench.watchdog.allow(20.0)
    bench.clock.advance(19.9)
    assert bench.reported == []
    bench.clock.advance(100)

    assert bench.reported == [20.0]


def test_a_message_ends_a_silence() -> None:
    bench = Bench()
    for _ in range(5):
        bench.watchdog.allow(20.0)
        bench.clock.advance(19.9)
    bench.watchdog.cancel()
    bench.clock.advance(100)

    assert bench.reported == []


def test_a_late_tick_counts_as_one_and_is_never_the_last() -> None:
    bench = Bench()
    bench.watchdog.allow(3.0)
    bench.clock.advance(1.5)
    bench.clock.suspend(60)  # over the second tick
    assert bench.reported == []
    bench.clock.suspend(60)  # over the third one
    assert bench.reported == []
    bench.clock.advance(1.0)

    assert bench.reported == [4.0]


def standstills() -> Iterator[tuple[float, float, float]]:
    """Yield the seconds of work up to a message, when a machine stands still, and for how long.

    A standstill takes at most one tick of a child that works for long without a message.
    """
    for half_seconds in range(2, 1_201):
        yield 1.0, 0.25, half_seconds / 2
        yield 18.9, (half_seconds % 37) / 2 + 0.3, half_seconds / 2


def test_a_standstill_of_the_whole_machine_kills_nobody() -> None:
    for work, at, seconds in standstills():
        bench = Bench()
        bench.watchdog.allow(SILENT_SECONDS)
        bench.clock.advance(at)
        bench.clock.suspend(seconds)  # timers are looked at before the messages
        bench.clock.advance(work - at)
        assert bench.reported == [], (work, at, seconds)


def test_a_child_that_stands_still_alone_is_found_on_a_machine_that_is_slow() -> None:
    """Each tick is late by less than a tenth of a second."""
    bench = Bench()
    bench.watchdog.allow(SILENT_SECONDS)
    for _ in range(20):
        bench.clock.advance(0.99)
        bench.clock.suspend(0.05)

    assert bench.reported == [SILENT_SECONDS]


@pytest.mark.parametrize("asked", [None, 600.0])
def test_a_heartbeat_is_sent_once_a_second_and_before_a_long_part_at_once(
    asked: float | None,
) -> None:
    clock, sent = FakeClock(), list[Alive]()
    heart = Heartbeat(sent.append, clock.now)
    for _ in range(16):
        clock.advance(0.25)
        heart.beat()
    assert sent == [Alive(SILENT_SECONDS)] * 4
    heart.beat(asked)

    assert sent[4:] == ([] if asked is None else [Alive(asked)])
