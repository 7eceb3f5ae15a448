"""One fit in a supervised child process: started again once when it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from elmo_serve.jobs.fit_messages import (
    FitMessage,
    Fits,
    NotTrained,
    Scored,
    Train,
    Trained,
)
from elmo_serve.jobs.fit_process import work
from elmo_serve.jobs.scratch_files import ScratchFiles
from elmo_serve.metrics import Metrics
from elmo_serve.workers.process import ChildProcess
from elmo_serve.workers.shared_memory import Segment
from elmo_serve.workers.slot import Child, LostTasks, Slot, SlotSpec, Started
from elmo_serve.workers.watchdog import Timeouts

_ATTEMPTS = 2
"""Processes that may be lost before the job fails."""

_TIMEOUTS = Timeouts(load=1_800.0, first_batch=14_400.0, batch=14_400.0)
"""At the lowest priority a fit stands still for long on a busy machine. A message comes after each
mixture and seed."""

NICENESS = 19
"""The lowest priority: beside a busy worker the fit gets some 1.5 % of a core. Server and fit share
a session, so that the kernel's autogroups, which would hide the priority, do not part them."""


class FitFailedError(Exception):
    """A fit cannot be learned, or its process was lost; the message is one line."""


SpawnFit = Callable[[ScratchFiles], Child]
"""Makes the process of a fit, which is not started yet, from the files that it may map."""


def spawner(log: tuple[str, str], niceness: int = NICENESS) -> SpawnFit:
    """Return a maker of processes; `log` is the level and the form of their log lines."""
    return lambda files: ChildProcess("elmo-fit", work, log, files, niceness)


class FitChild:
    """The process of one job. Start it early: torch is loaded while the vectors are computed."""

    def __init__(
        self,
        files: ScratchFiles,
        on_message: Callable[[Fits | Scored], None],
        metrics: Metrics,
        spawn: SpawnFit,
    ) -> None:
        self._metrics = metrics
        self._on_message = on_message
        self._lost = 0
        self._task: tuple[Train, tuple[Segment, ...]] | None = None
        self._end: asyncio.Future[Trained] = asyncio.get_running_loop().create_future()
        spec = SlotSpec(
            name="fit process",
            loading="it is starting",
            make=lambda _: spawn(files),
            timeouts=_TIMEOUTS,
            minimum_size=1,
        )
        self._slot: Slot[Train] = Slot(spec, self, [])

    def start(self) -> None:
        """Spawn the process."""
        self._slot.start()

    async def train(self, task: Train, *segments: Segment) -> Trained:
        """Give the process its task, now or when it is ready, and wait for the end.

        Raises:
            FitFailedError: nothing can be learned, or two processes were lost.
        """
        self._task = task, segments
        if self._slot.is_ready:
            self._submit()
        return await asyncio.shield(self._end)

    async def ended(self) -> Trained:
        """Wait for the end without giving a task. Raises FitFailedError as `train` does."""
        return await asyncio.shield(self._end)

    async def stop(self) -> None:
        """End the process, whatever it does."""
        if not self._end.done():
            self._end.cancel()
        elif not self._end.cancelled():
            self._end.exception()  # it has been seen, or nobody waits for it
        self._slot.kill()
        await self._slot.stop()

    def on_message(self, slot: Slot[Train], message: FitMessage) -> None:
        """Handle a message of the process."""
        match message:
            case Started():
                self._slot.mark_ready()
                if self._task is not None:
                    self._submit()
            case Fits() | Scored():
                self._slot.renew()
                self._on_message(message)
            case NotTrained(reason):
                self._slot.finish()
                self._fail(reason)
            case Trained():
                self._slot.finish()
                if not self._end.done():
                    self._end.set_result(message)

    def on_lost(self, slot: Slot[Train], lost: LostTasks[Train]) -> None:
        """Count the loss; the slot starts the next process, which gets the task again."""
        self._metrics.failures.labels("fit_hung" if lost.was_hung else "fit_lost").inc()
        self._lost += 1
        if self._lost == _ATTEMPTS:
            self._fail(f"{lost.reason}, the second one of this job")

    def on_restart(self, slot: Slot[Train]) -> None:
        """Count nothing: the loss is counted."""

    def _submit(self) -> None:
        assert self._task is not None
        task, segments = self._task
        self._slot.assign(task, 1)
        self._slot.child.send(task, *segments)

    def _fail(self, reason: str) -> None:
        if not self._end.done():
            self._end.set_exception(FitFailedError(reason))
