"""A worker in a thread: the same protocol without a second process, for small models and tests."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable

from elmo_serve.workers.messages import Batch, LoadFailed, Message, RunnerSettings
from elmo_serve.workers.shared_memory import Bytes, SharedMemoryPool

_EXIT_GRACE_SECONDS = 5.0


class ThreadWorker:
    """One thread with a model. It cannot be killed: a hung thread is left behind.

    What it may still write to stays lent for as long as it runs.
    """

    def __init__(self, settings: RunnerSettings, segments: SharedMemoryPool) -> None:
        self._settings = settings
        self._segments = segments
        self._batches: queue.SimpleQueue[tuple[Batch, Bytes] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True, name="elmo-worker")
        self._gone = False

    def start(self, said: Callable[[Message], None], ended: Callable[[str], None]) -> None:
        """Start the thread and let it load the model."""
        self._loop = asyncio.get_running_loop()
        self._said, self._ended = said, ended
        self._thread.start()

    def submit(self, batch: Batch) -> None:
        """Queue a batch behind those submitted before."""
        # With its array: an engine lets go of an abandoned thread's, and the thread still writes.
        self._batches.put((batch, self._segments.array(batch.segment)))

    def kill(self) -> None:
        """Leave the thread behind: nothing it says is heard, and it begins nothing new."""
        self._finish("abandoned")
        self._batches.put(None)

    async def stop(self) -> None:
        """Wait for the thread to end, but not for ever."""
        self._batches.put(None)
        await asyncio.to_thread(self._thread.join, _EXIT_GRACE_SECONDS)

    def _work(self) -> None:
        from elmo_serve.workers import model_worker as runners  # noqa: PLC0415  # torch, in this thread only

        try:
            runner, message = runners.start(self._settings)
        except Exception as error:  # a thread that dies silently would load for ever
            runner, message = None, LoadFailed(f"{type(error).__name__}: {error}")
        self._post(self._say, message)
        while runner is not None and (given := self._batches.get()) is not None:
            if not self._gone:
                batch, memory = given
                try:
                    self._post(self._say, runner.run(batch, memory))
                except runners.DeviceLostError as error:
                    self._post(self._finish, f"lost its device: {error}")
                    return
                del batch, memory
            del given
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
