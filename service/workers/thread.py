"""A worker in a thread: the same protocol without a second process, for small models and tests."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable

import numpy as np

from service.workers.protocol import Batch, LoadFailed, Message, RunnerSettings


class ThreadWorker:
    """One thread with a model. It cannot be killed: a hung thread is left behind."""

    def __init__(self, settings: RunnerSettings) -> None:
        self._settings = settings
        self._batches: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True, name="elmo-worker")
        self._gone = False

    def start(self, said: Callable[[Message], None], ended: Callable[[str], None]) -> None:
        """Start the thread and let it load the model."""
        self._loop = asyncio.get_running_loop()
        self._said, self._ended = said, ended
        self._thread.start()

    def submit(self, batch: Batch) -> None:
        """Queue a batch behind those submitted before."""
        self._batches.put(batch)

    def kill(self) -> None:
        """Leave the thread behind; what it still says is not heard."""
        self._batches.put(None)
        self._finish("abandoned")

    async def stop(self) -> None:
        """Wait for the thread to end."""
        self._batches.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        from service.workers import runner as runners  # noqa: PLC0415  # torch, in this thread only

        try:
            runner, message = runners.start(self._settings)
        except Exception as error:  # a thread that dies silently would load for ever
            runner, message = None, LoadFailed(f"{type(error).__name__}: {error}")
        self._post(self._say, message)
        while runner is not None and (batch := self._batches.get()) is not None:
            self._post(self._say, runner.run(batch, np.frombuffer(batch.segment.memory, np.uint8)))
            del batch
        self._post(self._finish, "stopped")

    def _post(self, call: Callable[..., None], argument: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, argument)

    def _say(self, message: Message) -> None:
        if not self._gone:
            self._said(message)

    def _finish(self, reason: str) -> None:
        if not self._gone:
            self._gone = True
            self._ended(reason)
