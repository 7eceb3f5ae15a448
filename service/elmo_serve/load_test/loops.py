"""The two kinds of load: clients that wait for their responses, and arrivals at a rate."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from elmo_serve.load_test.sender import Sent
from elmo_serve.load_test.tally import Tally

_LOST_PAUSE_SECONDS = 0.1
"""Pause of a client after a lost request, so that a dead server is not asked without end."""

Clock = Callable[[], float]


class Sends(Protocol):
    """Sends requests: `elmo_serve.load_test.sender.Sender`."""

    def send(self, tally: Tally, due: float) -> Awaitable[Sent]:
        """Send the next request, which was due at that time, and count its outcome."""


async def closed_loop(
    sender: Sends, tally: Tally, clients: int, clock: Clock = time.perf_counter
) -> None:
    """Let clients send one request after another until `tally.until`.

    A client waits for each response, so a slow server is asked less: the latencies are those of
    so many clients, not those of a load. A refused client waits as long as `Retry-After` says.
    """

    async def client() -> None:
        while (now := clock()) < tally.until:
            sent = await sender.send(tally, now)
            pause = _LOST_PAUSE_SECONDS if sent.is_lost else sent.retry_after
            if pause:
                await asyncio.sleep(min(pause, max(0.0, tally.until - clock())))

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())


async def open_loop(
    sender: Sends,
    tally: Tally,
    rate: float,
    source: random.Random,
    clock: Clock = time.perf_counter,
) -> None:
    """Send `rate` requests a second, as a Poisson process, until `tally.until`; repeat none.

    Requests are sent when they are due, whether earlier ones were answered or not, and latencies
    begin at that time, also for a request that is sent late: no coordinated omission.
    """

    async def send(due: float) -> None:
        await sender.send(tally, due)

    due = clock()
    async with asyncio.TaskGroup() as group:
        while (due := due + source.expovariate(rate)) < tally.until:
            await asyncio.sleep(max(0.0, due - clock()))
            group.create_task(send(due))
