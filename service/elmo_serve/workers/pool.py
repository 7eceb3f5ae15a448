"""The pool of one model's workers, and the choice of the one that gets a batch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from elmo_serve.metrics import Metrics
from elmo_serve.processes.clock import EVENT_LOOP_CLOCK, Clock
from elmo_serve.processes.slot import ChildOptions, LostTasks, Slot
from elmo_serve.workers.messages import Batch, Done, Failed, LoadFailed, Message, ModelInfo, Ready

_log = logging.getLogger("elmo_serve.workers")

WorkerSlot = Slot[Batch]
"""A place for one worker, whose tasks are batches; their size is in padded tokens."""


class BatchListener(Protocol):
    """Is called when something happens to a worker or its batches: the dispatcher.

    It may submit the next batch from within any of these methods.
    """

    def on_ready(self, ready: Ready) -> None:
        """Handle that a worker can take batches."""

    def on_done(self, batch: Batch, done: Done, slot: WorkerSlot) -> None:
        """Handle a batch whose vectors are in its block."""

    def on_failed(self, batch: Batch, failed: Failed, slot: WorkerSlot) -> None:
        """Handle a batch that raised. The worker is alive."""

    def on_lost(self, running: Batch | None, waiting: Sequence[Batch], reason: str) -> None:
        """Handle the loss of a worker: it was working on `running` and not on `waiting`."""


class WorkerPool:
    """The workers of one model: ready while one is, able to recover until every slot gives up.

    The labels of each slot are its `model` and its `device`. A model that has a `fault`, which is
    known before it is loaded, gets no slot; its workers are counted as down all the same.

    Attributes:
        ready_count: the number of workers that can answer.
        info: the model's description in its checkpoint, once a worker is or was ready.
        kernels: the products of each device in words, once a worker is or was ready there.
    """

    def __init__(
        self,
        children: Sequence[ChildOptions],
        metrics: Metrics,
        clock: Clock = EVENT_LOOP_CLOCK,
        fault: str = "",
    ) -> None:
        self._listener: BatchListener  # from the start
        self._changes = asyncio.Event()
        self._metrics = metrics
        self._fault = fault
        self.ready_count = 0
        self.info: ModelInfo | None = None
        self.kernels: dict[str, str] = {}
        self.slots: list[WorkerSlot] = []
        self._started: list[WorkerSlot] = []  # the others wait for the first one of their device
        for options in children:
            metrics.worker_up.labels(**options.labels)
            metrics.worker_restarts.labels(**options.labels)
            metrics.batch_budget.labels(**options.labels).set(options.largest_size)
            if not fault:
                self.slots.append(WorkerSlot(options, self, clock))

    def start(self, listener: BatchListener) -> None:
        """Start a worker on every device, and report all and their batches to `listener`.

        The first worker of a device finds the form of the products, without another one that takes
        processor time meanwhile. The others are given what it has found, and start then.
        """
        self._listener = listener
        first = {slot.labels["device"]: slot for slot in reversed(self.slots)}
        self._started += [slot for slot in self.slots if slot in first.values()]
        for slot in self._started:
            slot.start()

    def submit(self, batch: Batch, slot: WorkerSlot) -> None:
        """Give a worker a batch; it runs behind those it already has, unless it is urgent."""
        slot.assign(batch, batch.padded_tokens, is_urgent=batch.is_urgent)
        slot.child.send(batch)

    def kill(self) -> None:
        """End every worker now, whatever it does."""
        for slot in self.slots:
            slot.kill()

    async def stop(self) -> None:
        """Let every worker end."""
        await asyncio.gather(*(slot.stop() for slot in self.slots))

    async def wait_for_start(self) -> str | None:
        """Wait for the first start: None once a worker is ready, the reason when none can be."""
        while True:
            if self.is_ready:
                return None
            if all(slot.failed_starts for slot in self._started):
                return self._fault or self.slots[0].start_failure
            self._changes.clear()
            await self._changes.wait()

    async def wait_until_ready(self) -> None:
        """Wait until a worker is ready, starting them rarely: other models need the processor."""
        for slot in self._started:
            slot.retry_rarely()
        while not self.is_ready:
            self._changes.clear()
            await self._changes.wait()

    @property
    def is_ready(self) -> bool:
        """Tell whether a worker can answer."""
        return self.ready_count > 0

    @property
    def can_recover(self) -> bool:
        """Tell whether a worker may still recover without a restart of this process."""
        return not all(slot.has_given_up for slot in self._started)

    @property
    def reason(self) -> str:
        """Why no worker is ready."""
        reasons = (f"{slot.labels['device']}: {slot.reason}" for slot in self.slots)
        return self._fault or "; ".join(dict.fromkeys(reasons))

    @property
    def interactive_size(self) -> int:
        """The tokens, boundaries included, up to which a request is interactive at every worker."""
        return min((slot.budget for slot in self.slots), default=0)

    def free(self, queued_tokens: int) -> WorkerSlot | None:
        """Return the slot that should get the next batch, or None: of the least busy the fastest.

        An idle worker takes whatever is queued. One on an accelerator holds a second batch, if that
        is a full one, so that the device does not wait for this process between two batches.
        """
        slots = (
            slot
            for slot in self.slots
            if slot.is_ready and (not slot.task_count or _has_room_for_second(slot, queued_tokens))
        )
        return min(
            slots, key=lambda slot: (slot.task_count, slot.seconds_per_unit_when_full), default=None
        )

    # What a slot reports

    def on_message(self, slot: WorkerSlot, message: Message) -> None:
        """Handle a message of a worker."""
        match message:
            case Done() | Failed():
                self._on_batch_end(slot, message)
            case Ready():
                self._on_ready(slot, message)
            case LoadFailed(reason):
                slot.mark_failed(reason)

    def on_lost(self, slot: WorkerSlot, lost: LostTasks[Batch]) -> None:
        """Report the loss of a worker."""
        if lost.was_ready:
            self._metrics.worker_up.labels(**slot.labels).dec()
        if lost.was_ready or lost.was_hung:
            reason = "worker_hung" if lost.was_hung else "worker_lost"
            self._metrics.failures.labels(reason).inc()
        self._count_ready()
        self._listener.on_lost(lost.running, lost.waiting, lost.reason)

    def on_restart(self, slot: WorkerSlot) -> None:
        """Count the replacement."""
        self._metrics.worker_restarts.labels(**slot.labels).inc()

    def _on_ready(self, slot: WorkerSlot, ready: Ready) -> None:
        self.info = ready.info
        self.kernels[slot.labels["device"]] = ready.info.kernel
        measured = ready.warm_up
        slot.mark_ready(ready, measured.seconds_per_token, measured.tokens)
        self._metrics.batch_budget.labels(**slot.labels).set(slot.budget)
        self._metrics.worker_up.labels(**slot.labels).inc()
        _log.info("worker ready", extra=slot.labels)
        self._count_ready()
        self._listener.on_ready(ready)
        for other in self.slots:
            if other not in self._started and other.labels == slot.labels:
                self._started.append(other)
                other.start(ready)

    def _on_batch_end(self, slot: WorkerSlot, message: Done | Failed) -> None:
        batch = slot.finish(next(each for each in slot.tasks if each.id == message.batch))
        is_memory_short = isinstance(message, Failed) and message.memory
        if slot.adjust_budget(batch.padded_tokens, was_memory_short=is_memory_short):
            self._metrics.batch_budget.labels(**slot.labels).set(slot.budget)
        if isinstance(message, Done):
            self._listener.on_done(batch, message, slot)
            return
        if message.memory:
            fields = {**slot.labels, "tokens": slot.budget}
            _log.warning("device memory is short, batches are halved", extra=fields)
        self._listener.on_failed(batch, message, slot)

    def _count_ready(self) -> None:
        """Count the workers again; each request asks for the count several times."""
        self.ready_count = sum(slot.is_ready for slot in self.slots)
        self._changes.set()


def _has_room_for_second(slot: WorkerSlot, queued_tokens: int) -> bool:
    return slot.labels["device"] != "cpu" and slot.task_count == 1 and queued_tokens >= slot.budget
