"""The pool of one model's workers, and the choice of the worker that gets the next batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from elmo_serve.metrics import Metrics
from elmo_serve.workers.clock import EVENT_LOOP_CLOCK, Clock
from elmo_serve.workers.messages import ModelInfo
from elmo_serve.workers.worker_slot import BatchListener, ModelSlot, WorkerSlot, WorkerSpec

_PREFETCH_SECONDS = 0.03
"""A worker is given its next batch ahead of time while a full batch takes no longer than this.

The pause between two batches is about half a millisecond: after a longer batch it is 2 % or less.
"""

_PREFETCH_LEAD_SECONDS = 0.005
"""Seconds before the end of a batch at which the next is given.

A larger value makes new requests wait behind the batch that was given ahead.
"""

_SHORTEST_WAIT_SECONDS = 0.001  # the resolution of the event loop's timers


class WorkerPool:
    """The slots of one model's workers: ready while one is, fit while one may recover.

    Attributes:
        ready_count: the number of workers that can answer.
        info: the model's description in its checkpoint, once a worker is or was ready.
    """

    def __init__(
        self, specs: Sequence[WorkerSpec], metrics: Metrics, clock: Clock = EVENT_LOOP_CLOCK
    ) -> None:
        self._changes = asyncio.Event()
        peers: list[ModelSlot] = []
        self.ready_count = 0
        self.info: ModelInfo | None = None
        self.slots = [WorkerSlot(spec, peers, metrics, self._on_change, clock) for spec in specs]

    def start(self, listener: BatchListener) -> None:
        """Start a worker in every slot, and report them and their batches to `listener`."""
        for slot in self.slots:
            slot.start(listener)

    def kill(self) -> None:
        """End every worker now, whatever it does."""
        for slot in self.slots:
            slot.kill()

    async def stop(self) -> None:
        """Let every worker end."""
        await asyncio.gather(*(slot.stop() for slot in self.slots))

    async def first_outcome(self) -> str | None:
        """Wait for the first start: None once a worker is ready, the reason when none can be."""
        while True:
            if self.is_ready:
                return None
            if all(slot.failed_starts for slot in self.slots):
                return self.slots[0].start_failure
            self._changes.clear()
            await self._changes.wait()

    @property
    def is_ready(self) -> bool:
        """Tell whether a worker can answer."""
        return self.ready_count > 0

    @property
    def is_fit(self) -> bool:
        """Tell whether a worker may still recover without a restart of this process."""
        return not all(slot.is_hopeless for slot in self.slots)

    @property
    def reason(self) -> str:
        """Why no worker is ready."""
        return "; ".join(dict.fromkeys(f"{slot.device}: {slot.reason}" for slot in self.slots))

    def _on_change(self) -> None:
        """Count the workers again; each request asks for the count several times."""
        self.ready_count = sum(slot.state == "ready" for slot in self.slots)
        self.info = next((slot.info for slot in self.slots if slot.info), None)
        self._changes.set()

    def free(self, queued_tokens: int) -> WorkerSlot | None:
        """Return the slot that should get the next batch, or None.

        An idle worker takes whatever is queued. A busy one is given at most one batch ahead, and
        only a full one, shortly before it is done: new requests wait behind it. The end of a batch
        is known to some tenths of its time, so workers with long batches get none ahead.
        """
        slot = self._least_busy()
        if slot is None or (slot.batches and not _can_prefetch(slot, queued_tokens)):
            return None
        return slot if slot.seconds_left <= _PREFETCH_LEAD_SECONDS else None

    def free_in(self, queued_tokens: int) -> float | None:
        """Return the seconds after which to call `free` again for a worker that is busy now."""
        slot = self._least_busy()
        if slot is None or not _can_prefetch(slot, queued_tokens):
            return None
        return max(_SHORTEST_WAIT_SECONDS, slot.seconds_left - _PREFETCH_LEAD_SECONDS)

    def _least_busy(self) -> WorkerSlot | None:
        ready = [slot for slot in self.slots if slot.state == "ready"]
        return min(ready, key=lambda slot: (slot.batches, slot.seconds_left), default=None)


def _can_prefetch(slot: WorkerSlot, queued_tokens: int) -> bool:
    return (
        slot.batches == 1
        and queued_tokens >= slot.budget
        and slot.full_seconds <= _PREFETCH_SECONDS
    )
