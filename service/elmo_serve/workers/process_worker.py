"""A model worker in a process of its own: the default, since it cannot block the event loop."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable

from elmo_serve import logs
from elmo_serve.workers import devices
from elmo_serve.workers.child_process import ChildProcess, Parent
from elmo_serve.workers.messages import Batch, Message, RunnerSettings
from elmo_serve.workers.shared_memory import SharedMemoryPool

_log = logging.getLogger("elmo_serve.workers")


class ProcessWorker:
    """One spawned process with a model; batches go over a socket, vectors come in shared memory."""

    def __init__(self, settings: RunnerSettings, segments: SharedMemoryPool) -> None:
        name = f"elmo-worker-{settings.device}"
        self._child = ChildProcess(name, work, (settings,), segments)

    @property
    def pid(self) -> int | None:
        """The process id, or None before the process is spawned."""
        return self._child.pid

    def start(self, on_message: Callable[[Message], None], on_exit: Callable[[str], None]) -> None:
        """Spawn the process and let it load the model."""
        self._child.start(on_message, on_exit)

    def submit(self, batch: Batch) -> None:
        """Queue a batch behind those submitted before."""
        self._child.send(batch, batch.segment)

    def kill(self) -> None:
        """End the process now."""
        self._child.kill()

    async def stop(self) -> None:
        """Close the channel and wait for the process to end."""
        await self._child.stop()


def work(parent: Parent, settings: RunnerSettings) -> None:
    """Load the model, then run batches until the server closes the channel."""
    if settings.cuda_slice:  # before torch is imported, which reads it once
        os.environ[devices.VISIBLE] = settings.cuda_slice
    # torch, in the worker's process only: the server imports this module too.
    from elmo_serve.workers import model_loading, model_worker  # noqa: PLC0415

    logs.configure(settings.log_level, settings.log_format)
    runner, message = model_loading.start(settings, owns_process=True)
    parent.send(message)
    while runner is not None:
        batch: Batch = parent.receive()
        try:
            parent.send(runner.run(batch, parent.memory(batch.segment)))
        except model_worker.DeviceLostError as error:
            _log.error("device lost", extra={"device": settings.device, "reason": str(error)})
            sys.exit(1)
