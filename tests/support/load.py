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
from collections.abc import Iterator
from contextlib import contextmanager

from elmo_serve.load_test.connections import Connections
from elmo_serve.load_test.loops import closed_loop
from elmo_serve.load_test.phase import Phase
from elmo_serve.load_test.sender import Request, Sender

_TIMEOUT_SECONDS = 300.0


class Load:
    """Clients that send requests without a pause and compare each response.

    Where they `may_be_refused`, 429 and 503 are no fault. `slowest` is the longest time of a
    response in seconds, since it was set to 0. `phase` has the counts.
    """

    def __init__(
        self, url: str, requests: Iterator[Request], *, may_be_refused: bool = False
    ) -> None:
        self.phase = Phase("load")
        self.slowest = 0.0
        self._url = url
        self._requests = requests
        self._may_be_refused = may_be_refused
        self._changed = threading.Condition()

    @property
    def answered(self) -> int:
        """Requests that were answered with vectors."""
        return self.phase.answered

    @property
    def failed(self) -> int:
        """Requests that were wrong, lost, late, or had a status that they should not have."""
        phase = self.phase
        refused = 0 if self._may_be_refused else phase.refused.total()
        return phase.wrong + phase.lost + phase.late + phase.failed.total() + refused

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
        connections = Connections(self._url, clients)
        sender = Sender(connections, self._requests, _TIMEOUT_SECONDS)

        async def send(phase: Phase, due: float) -> float:
            pause = await sender.send(phase, due)
            self.slowest = max(self.slowest, time.perf_counter() - due)
            with self._changed:
                self._changed.notify_all()
            return pause

        try:
            await closed_loop(send, self.phase, clients)
        finally:
            await connections.close()
