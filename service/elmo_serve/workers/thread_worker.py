"""A model worker in a thread: the same protocol without a second process, for tests."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Protocol

from elmo_serve.workers.messages import Batch, LoadFailed, Message, RunnerSettings
from elmo_serve.workers.shared_memory import Bytes, SharedMemoryPool

_EXIT_GRACE_SECONDS = 5.0
"""Seconds to wait for a thread that still computes; it cannot be ended."""


class BatchRunner(Protocol):
    """A loaded model."""

    def run(self, batch: Batch, memory: Bytes) -> Message:
        """Compute a batch and write its vectors to `memory`."""


Load = Callable[[RunnerSettings], tuple[BatchRunner | None, Message]]


def load_model(settings: RunnerSettings) -> tuple[BatchRunner | None, Message]:
    """Load the model with torch, which the server's process has not imported before."""
    from elmo_serve.workers import model_loading  # noqa: PLC0415

    return model_loading.start(settings)


class ThreadWorker:
    """One thread with a model. It cannot be killed: a hung thread is abandoned.

    The memory that an abandoned thread may still write to stays in use until the thread ends.
    `load` is called in the thread.
    """

    def __init__(
        self, settings: RunnerSettings, segments: SharedMemoryPool, load: Load = load_model
    ) -> None:
        self._settings = settings
        self._load = load
        self._segments = segments
        self._batches: queue.SimpleQueue[tuple[Batch, Bytes] | None] = queue.SimpleQueue()
        self._is_over = False

    def start(self, on_message: Callable[[Message], None], on_exit: Callable[[str], None]) -> None:
        """Start the thread and let it load the model."""
        self._loop = asyncio.get_running_loop()
        self._on_message, self._on_exit = on_message, on_exit
        self._thread = threading.Thread(target=self._work, daemon=True, name="elmo-worker")
        self._thread.start()

    def submit(self, batch: Batch) -> None:
        """Queue a batch behind those submitted before."""
        # With the array of its segment, which the thread holds while it may write to it.
        self._batches.put((batch, self._segments.share(batch.segment)))

    def kill(self) -> None:
        """Abandon the thread: its messages are dropped, and it begins nothing new."""
        self._finish("was abandoned")
        self._batches.put(None)

    async def stop(self) -> None:
        """Wait for the thread to end, but not for ever."""
        self._batches.put(None)
        await asyncio.to_thread(self._thread.join, _EXIT_GRACE_SECONDS)

    def _work(self) -> None:
        try:
            runner, message = self._load(self._settings)
        except Exception as error:  # a thread that dies silently would load for ever
            runner, message = None, LoadFailed(f"{type(error).__name__}: {error}")
        self._post(self._report, message)
        while runner is not None and (item := self._batches.get()) is not None:
            if not self._is_over:
                batch, memory = item
                try:
                    self._post(self._report, runner.run(batch, memory))
                except Exception as error:  # a lost device, or a thread that dies silently
                    self._post(self._finish, f"ended: {type(error).__name__}: {error}")
                    return
                del batch, memory
            del item
        self._post(self._finish, "stopped")

    def _post(self, call: Callable[..., None], argument: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, argument)

    def _report(self, message: Message) -> None:
        if not self._is_over:
            self._on_message(message)

    def _finish(self, reason: str) -> None:
        if not self._is_over:
            self._is_over = True
            self._on_exit(reason)
