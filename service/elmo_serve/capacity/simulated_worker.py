"""A worker without a model that takes the time of a batch in virtual time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from elmo_serve.capacity.batch_time import BatchTime
from elmo_serve.workers.messages import Batch, Done, Message, ModelInfo, Ready

INFO = ModelInfo("simulated", "0", "none", 1, 1, 0, "float32")


class SimulatedWorker:
    """Finishes each batch after its time, one at a time, in their order. It writes no vectors.

    `busy_seconds` is the time of all batches that have begun.
    """

    def __init__(self, batch_time: BatchTime, batch_tokens: int) -> None:
        self._time = batch_time
        self._pace = batch_time.seconds(batch_tokens) / batch_tokens
        self._queue: deque[Batch] = deque()
        self.busy_seconds = 0.0

    def start(self, on_message: Callable[[Message], None], on_exit: Callable[[str], None]) -> None:
        """Be ready at once."""
        self._on_message, self._on_exit = on_message, on_exit
        asyncio.get_running_loop().call_soon(on_message, Ready(INFO, self._pace))

    def submit(self, batch: Batch) -> None:
        """Compute a batch after those submitted before."""
        self._queue.append(batch)
        if len(self._queue) == 1:
            self._begin()

    def kill(self) -> None:
        """Report the end."""
        asyncio.get_running_loop().call_soon(self._on_exit, "stopped")

    async def stop(self) -> None:
        """Report the end."""
        self.kill()

    def _begin(self) -> None:
        seconds = self._time.seconds(self._queue[0].tokens)
        self.busy_seconds += seconds
        asyncio.get_running_loop().call_later(seconds, self._finish, seconds)

    def _finish(self, seconds: float) -> None:
        batch = self._queue[0]
        self._on_message(Done(batch.id, seconds, 0, 0))  # the next batch may be submitted within
        self._queue.popleft()
        if self._queue:
            self._begin()
