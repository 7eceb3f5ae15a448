"""The two kinds of load: clients that wait for their responses, and arrivals at a rate."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from elmo_serve.load_test.phase import Phase

Clock = Callable[[], float]

Send = Callable[[Phase, float], Awaitable[float]]
"""`Sender.send`: sends a request that is due at a time, and returns a pause in seconds."""


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
