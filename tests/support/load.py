"""Clients of the load generator in a thread, beside a test that changes the servers.

load = Load(url, requests)
with load.under_way(clients=4):
    replica.kill()
    load.until_answered(100)
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from benchmarks.comparison import Request
from benchmarks.connections import Connections
from benchmarks.load import Phase, Send, Sender, closed_loop

_TIMEOUT_SECONDS = 300.0


class Load:
    """Clients that send requests without a pause and compare each response.

    `slowest` is the longest time of a response in seconds, since it was set to 0. `phase` has the
    counts.
    """

    def __init__(self, url: str, requests: Iterator[Request]) -> None:
        self.phase = Phase("load")
        self.slowest = 0.0
        self._url = url
        self._requests = requests
        self._changed = threading.Condition()

    @property
    def answered(self) -> int:
        """Requests that were answered with vectors."""
        return self.phase.answered

    @property
    def failed(self) -> int:
        """Requests that were wrong, lost, late, or had a status that they should not have."""
        phase = self.phase
        statuses = phase.failed.total() + phase.refused.total()
        return phase.wrong + phase.lost + phase.late + statuses

    @contextmanager
    def under_way(self, clients: int) -> Iterator[None]:
        """Send requests until the block ends; fail when one of them failed."""
        self.phase.until = math.inf
        thread = threading.Thread(target=lambda: asyncio.run(self._run(clients)))
        thread.start()
        try:
            self.until_answered(5 * clients)
            yield
            self.until_answered(5 * clients)
        finally:
            self.phase.until = time.perf_counter()
            thread.join()
        assert not self.failed, (self.phase.faults, self.phase.refused, self.phase.late)

    def until_answered(self, more: int) -> None:
        """Wait until this many more requests were answered, or one has failed."""
        with self._changed:
            goal = self.answered + more
            while self.answered < goal and not self.failed:
                assert self._changed.wait(_TIMEOUT_SECONDS), "no request was answered"

    async def _run(self, clients: int) -> None:
        async with self._sender(clients) as send_one:

            async def send(phase: Phase, due: float) -> float:
                pause = await send_one(phase, due)
                self.slowest = max(self.slowest, time.perf_counter() - due)
                with self._changed:
                    self._changed.notify_all()
                return pause

            await closed_loop(send, self.phase, clients)

    @asynccontextmanager
    async def _sender(self, clients: int) -> AsyncIterator[Send]:
        """Yield a function that sends the next request and counts its outcome."""
        connections = Connections(self._url, clients)
        try:
            yield Sender(connections, self._requests, _TIMEOUT_SECONDS).send
        finally:
            await connections.close()
