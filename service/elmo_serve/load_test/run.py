"""A whole load test: closed and open loops, one after another, on one event loop."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import cycle

import uvloop

from elmo_serve.load_test.connections import Connections
from elmo_serve.load_test.phase import Phase
from elmo_serve.load_test.sender import Request, Sender

OnStep = Callable[[str], None]

Clock = Callable[[], float]

Send = Callable[[Phase, float], Awaitable[float]]
"""`Sender.send`: sends a request that is due at a time, and returns a pause in seconds."""

_CLIENTS = 8
"""Clients of the closed loop where neither clients nor a rate are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTest:
    """The loads on a server: a closed loop for each number of clients, an open one for each rate.

    `duration` and `warm_up` are seconds of each load, `timeout` seconds of each request. `api_key`
    is one of the server's keys, if it requires one.
    """

    clients: Sequence[int] = ()
    rates: Sequence[float] = ()
    duration: float = 10.0
    warm_up: float = 2.0
    connections: int = 1_000
    timeout: float = 60.0
    seed: int = 1
    api_key: str | None = None

    def run(
        self, url: str, requests: Sequence[Request], on_step: OnStep = lambda _: None
    ) -> list[Phase]:
        """Send the requests in turn, and return a phase for each load. Ctrl-C ends it early."""
        phases: list[Phase] = []
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._run(url, requests, phases, on_step))
        return phases

    async def _run(
        self, url: str, requests: Sequence[Request], phases: list[Phase], on_step: OnStep
    ) -> None:
        headers = {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}
        connections = Connections(url, self.connections, headers)
        send = Sender(connections, cycle(requests), self.timeout).send
        source = random.Random(self.seed)

        def begin(name: str, rate: float | None = None) -> Phase:
            on_step(name)
            since = time.perf_counter() + self.warm_up
            phases.append(Phase(name, since, since + self.duration, rate))
            return phases[-1]

        try:
            for clients in self.clients or (() if self.rates else (_CLIENTS,)):
                phase = begin(f"{clients} client{'s' * (clients != 1)}")
                await closed_loop(send, phase, clients)
            for rate in self.rates:
                phase = begin(f"{rate:,.4g} requests/s", rate)
                await open_loop(send, phase, rate, source)
        except asyncio.CancelledError:
            for phase in phases[-1:]:  # it is as long as it ran
                phase.until = max(phase.since, min(phase.until, time.perf_counter()))
                phase.is_interrupted = True
        finally:
            await connections.close()


async def closed_loop(
    send: Send, phase: Phase, clients: int, clock: Clock = time.perf_counter
) -> None:
    """Let clients send one request after another until `phase.until`.

    A client waits for each response, so a slow server is asked less: the latencies are those of
    so many clients, not those of a load. A refused client waits as long as `Retry-After` says.
    """

    async def client() -> None:
        while (now := clock()) < phase.until:
            pause = await send(phase, now)
            if pause:
                await asyncio.sleep(min(pause, max(0.0, phase.until - clock())))

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())


async def open_loop(
    send: Send,
    phase: Phase,
    rate: float,
    source: random.Random,
    clock: Clock = time.perf_counter,
) -> None:
    """Send `rate` requests a second, as a Poisson process, until `phase.until`; repeat none.

    Requests are sent when they are due, whether earlier ones were answered or not, and latencies
    begin at that time, also for a request that is sent late: no coordinated omission.
    """

    async def send_at(due: float) -> None:
        await send(phase, due)

    due = clock()
    async with asyncio.TaskGroup() as group:
        while (due := due + source.expovariate(rate)) < phase.until:
            await asyncio.sleep(max(0.0, due - clock()))
            group.create_task(send_at(due))
