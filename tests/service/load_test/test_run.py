"""Both loops of a load test in virtual time."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Callable

import pytest

from elmo_serve.load_test.run import Phase, closed_loop, open_loop
from tests.support.virtual_time import VirtualLoop, in_virtual_time

Latency = Callable[[int], float]


def now() -> float:
    return asyncio.get_running_loop().time()


class Server:
    """Answers the n-th request after some seconds; keeps the times of all requests."""

    def __init__(self, seconds: Latency, pause: float = 0.0, stall: float = 0.0) -> None:
        self._seconds = seconds
        self._pause = pause
        self._stall = stall
        self.due: list[float] = []
        self.sent: list[float] = []
        self.most = 0
        self._running = 0

    async def send(self, _phase: Phase, due: float) -> float:
        self.due.append(due)
        self.sent.append(now())
        self._running += 1
        self.most = max(self.most, self._running)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.now += self._stall
        await asyncio.sleep(self._seconds(len(self.due)))
        self._running -= 1
        return self._pause


def phase(seconds: float) -> Phase:
    return Phase("", now(), now() + seconds)


@in_virtual_time
async def test_a_client_of_a_closed_loop_waits_for_its_answer() -> None:
    server = Server(lambda _: 2.0)
    await closed_loop(server.send, phase(10.0), 3, now)

    assert server.due == server.sent == [t for t in (0.0, 2.0, 4.0, 6.0, 8.0) for _ in range(3)]
    assert server.most == 3


@in_virtual_time
async def test_a_client_waits_as_long_as_it_should() -> None:
    server = Server(lambda _: 0.0, pause=4.0)
    await closed_loop(server.send, phase(10.0), 1, now)

    assert server.sent == [0.0, 4.0, 8.0]
    assert now() == 10.0, "the last pause ends with the phase"


@in_virtual_time
async def test_an_open_loop_sends_whether_it_is_answered_or_not() -> None:
    server = Server(lambda _: 1_000.0)
    await open_loop(server.send, phase(100.0), 5.0, random.Random(1), now)

    assert server.most == len(server.due)
    assert server.sent == pytest.approx(server.due)
    assert now() > 1_000, "it waits for the answers"


@in_virtual_time
async def test_arrivals_of_an_open_loop_are_a_poisson_process() -> None:
    server = Server(lambda _: 0.0)
    await open_loop(server.send, phase(2_000.0), 5.0, random.Random(1), now)

    gaps = [later - sooner for sooner, later in zip(server.due, server.due[1:], strict=False)]
    assert len(server.due) == pytest.approx(10_000, rel=0.03)
    assert statistics.mean(gaps) == pytest.approx(0.2, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(0.2, rel=0.05)


@in_virtual_time
async def test_a_stalled_load_generator_does_not_shift_what_is_due() -> None:
    """Coordinated omission: requests that could not be sent in time count from their due time."""
    usual, stalled = Server(lambda _: 0.0), Server(lambda _: 0.0, stall=3.0)
    await open_loop(usual.send, phase(20.0), 1.0, random.Random(1), now)
    shift = now()
    await open_loop(stalled.send, phase(20.0), 1.0, random.Random(1), now)

    assert [due - shift for due in stalled.due] == pytest.approx(usual.due)
    assert stalled.sent[-1] - stalled.due[-1] > 20
