"""A whole load test: its phases one after another, on one event loop."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvloop

from elmo_serve.load_test.checker import Checker
from elmo_serve.load_test.connections import Connections
from elmo_serve.load_test.loops import closed_loop, open_loop
from elmo_serve.load_test.saturation import Saturation, find_saturation
from elmo_serve.load_test.sender import Sender
from elmo_serve.load_test.server_batches import ServerBatches, batches_of
from elmo_serve.load_test.tally import Tally
from elmo_serve.load_test.workload import Body

OnStep = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Loads:
    """The phases of a load test: a closed loop for each number of clients, an open one a rate.

    With `find_saturation`, the rates that are searched follow. `warm_up` and `duration` are seconds
    of each phase.
    """

    clients: Sequence[int] = ()
    rates: Sequence[float] = ()
    find_saturation: bool = False
    duration: float = 10.0
    warm_up: float = 2.0
    connections: int = 1_000
    timeout: float = 60.0
    seed: int = 1


@dataclass(slots=True)
class Measured:
    """The phases that ran; the last one is incomplete where the test was interrupted."""

    tallies: list[Tally] = field(default_factory=list)
    saturation: Saturation | None = None
    is_interrupted: bool = False

    @property
    def is_bad(self) -> bool:
        """Whether a vector was wrong or a request lost or failed."""
        return any(tally.is_bad for tally in self.tallies)

    def as_json(self) -> dict[str, Any]:
        """Return the phases, and the rates around saturation."""
        found = self.saturation
        rates = None
        if found is not None:
            rates = {
                "followed": found.followed and found.followed.as_json(),
                "beyond": found.beyond and found.beyond.as_json(),
            }
        return {
            "phases": [tally.as_json() for tally in self.tallies],
            "saturation": rates,
            "is_interrupted": self.is_interrupted,
        }


def run(
    url: str,
    headers: dict[str, str],
    loads: Loads,
    bodies: Sequence[Body],
    checker: Checker,
    media_type: str,
    on_step: OnStep = lambda _: None,
) -> Measured:
    """Run a load test against a server and return the phases. Ctrl-C ends it early."""
    measured = Measured()

    async def all_phases() -> None:
        connections = Connections(url, loads.connections, headers)
        sender = Sender(connections, bodies, checker, media_type, loads.timeout)
        try:
            await _Phases(sender, ServerBatches(connections), loads, measured, on_step).run()
        except asyncio.CancelledError:
            measured.is_interrupted = True
        finally:
            await connections.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(all_phases())
    return measured


class _Phases:
    def __init__(
        self,
        sender: Sender,
        batches: ServerBatches,
        loads: Loads,
        measured: Measured,
        on_step: OnStep,
    ) -> None:
        self._sender = sender
        self._batches = batches
        self._loads = loads
        self._measured = measured
        self._on_step = on_step
        self._source = random.Random(loads.seed)

    async def run(self) -> None:
        for clients in self._loads.clients:
            await self._closed(clients)
        for rate in self._loads.rates:
            await self._open(rate)
        if self._loads.find_saturation:
            alone = await self._closed(1)
            start = max(alone.requests_per_second, 1 / self._loads.duration)
            self._measured.saturation = await find_saturation(self._open, start)

    async def _closed(self, clients: int) -> Tally:
        tally = self._tally(f"{clients} client{'s' * (clients != 1)}", None)
        await self._ended(tally, lambda: closed_loop(self._sender, tally, clients))
        return tally

    async def _open(self, rate: float) -> Tally:
        tally = self._tally(f"{rate:,.4g} requests/s", rate)
        await self._ended(tally, lambda: open_loop(self._sender, tally, rate, self._source))
        return tally

    def _tally(self, name: str, rate: float | None) -> Tally:
        self._on_step(name)
        since = time.perf_counter() + self._loads.warm_up
        tally = Tally(name, since, since + self._loads.duration, rate)
        self._measured.tallies.append(tally)
        return tally

    async def _ended(self, tally: Tally, load: Callable[[], Awaitable[None]]) -> None:
        """Run a phase; one that is interrupted is as long as it ran."""
        try:
            before = await self._batches.read()
            tally.since = time.perf_counter() + self._loads.warm_up  # the read took time
            tally.until = tally.since + self._loads.duration
            await load()
            tally.batches = batches_of(tally, before, await self._batches.read())
        except asyncio.CancelledError:
            tally.until = max(tally.since, min(tally.until, time.perf_counter()))
            raise
