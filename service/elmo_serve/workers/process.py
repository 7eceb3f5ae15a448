"""A worker in a process of its own: the default, since nothing in it can hold up the front."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from elmo_serve import logs
from elmo_serve.workers.child_process import ChildProcess, Parent
from elmo_serve.workers.messages import Batch, Message, RunnerSettings
from elmo_serve.workers.shared_memory import SharedMemoryPool

if TYPE_CHECKING:
    from elmo_serve.workers.shared_memory import SegmentHandle


_log = logging.getLogger("elmo_serve.workers")


class ProcessWorker:
    """One spawned process with a model; batches go over a socket, vectors come in shared memory."""

    def __init__(self, settings: RunnerSettings, segments: SharedMemoryPool) -> None:
        self._settings = settings
        self._segments = segments
        self._child: ChildProcess | None = None

    @property
    def pid(self) -> int | None:
        """The process id, once started."""
        return self._child.pid if self._child else None

    def start(self, said: Callable[[Message], None], ended: Callable[[str], None]) -> None:
        """Spawn the process and let it load the model."""
        name = f"elmo-worker-{self._settings.device}"
        self._child = ChildProcess(name, work, (self._settings,), self._segments, said, ended)
        self._child.start()

    def submit(self, batch: Batch) -> None:
        """Queue a batch behind those submitted before."""
        assert self._child is not None
        self._child.send(batch, batch.segment)

    def kill(self) -> None:
        """End the process now."""
        if self._child is not None:
            self._child.kill()

    async def stop(self) -> None:
        """Hang up and wait for the process to end."""
        if self._child is not None:
            await self._child.stop()


def work(parent: Parent, settings: RunnerSettings) -> None:
    """Load the model, then run batches until the front hangs up."""
    import numpy as np  # noqa: PLC0415  # the front imports this module too, and needs neither

    from elmo_serve.workers import model_worker as runners  # noqa: PLC0415

    logs.configure(settings.log_level, settings.log_format)
    runner, message = runners.start(settings)
    parent.send(message)
    while runner is not None:
        batch = parent.receive()
        name: SegmentHandle = batch.segment
        try:
            parent.send(runner.run(batch, np.frombuffer(parent.memory(name), np.uint8)))
        except runners.DeviceLostError as error:
            _log.error("device lost", extra={"device": settings.device, "reason": str(error)})
            sys.exit(1)
