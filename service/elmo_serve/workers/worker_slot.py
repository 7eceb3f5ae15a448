"""A slot for one model worker: its supervision, and the pace and batch size of its device."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from elmo_serve.metrics import Metrics
from elmo_serve.workers.batch_budget import BatchBudget
from elmo_serve.workers.clock import Clock
from elmo_serve.workers.messages import (
    Batch,
    Done,
    Failed,
    LoadFailed,
    Message,
    ModelInfo,
    Ready,
    Worker,
)
from elmo_serve.workers.supervisor import ChildSlot, ChildSpec, Loss, State
from elmo_serve.workers.watchdog import Timeouts

_log = logging.getLogger("elmo_serve.workers")

_MINIMUM_TOKENS = 256
"""Padded tokens below which a batch is bound by latency; the watchdog counts it as that large."""


class BatchListener(Protocol):
    """Is called when something happens to a worker or its batches: the scheduler.

    A slot has finished its own bookkeeping before it calls, so the listener may submit the next
    batch from within any of these methods.
    """

    def on_ready(self, ready: Ready) -> None:
        """Handle that a slot can take batches."""

    def on_done(self, batch: Batch, done: Done, slot: WorkerSlot) -> None:
        """Handle a batch whose vectors are in its segment."""

    def on_failed(self, batch: Batch, failed: Failed, slot: WorkerSlot) -> None:
        """Handle a batch that raised. The worker is alive."""

    def on_lost(self, running: Batch | None, waiting: Sequence[Batch], reason: str) -> None:
        """Handle the loss of a worker: it was working on `running` and had not begun `waiting`."""


class _NoListener:
    """The listener of a slot that is not started: nothing happens to it yet."""

    def on_ready(self, ready: Ready) -> None: ...
    def on_done(self, batch: Batch, done: Done, slot: WorkerSlot) -> None: ...
    def on_failed(self, batch: Batch, failed: Failed, slot: WorkerSlot) -> None: ...
    def on_lost(self, running: Batch | None, waiting: Sequence[Batch], reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """One worker: its device, its largest batch in padded tokens, and how to make it.

    `model` is the name of its model. `remake` makes a worker in place of a lost one, from the
    description that it gave; None: `make` does.
    """

    device: str
    batch_tokens: int
    make: Callable[[], Worker]
    timeouts: Timeouts = field(default_factory=Timeouts)
    model: str = ""
    remake: Callable[[ModelInfo], Worker] | None = None


ModelSlot = ChildSlot[Worker, Message, Batch]


class WorkerSlot:
    """A place for one worker, with the pace and the largest batch of its device."""

    def __init__(
        self,
        spec: WorkerSpec,
        peers: list[ModelSlot],
        metrics: Metrics,
        changed: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.device = spec.device
        self.info: ModelInfo | None = None
        self.seconds = 0.0  # of the last batch, its way to the worker and back included
        self._full_pace = 0.0  # seconds a padded token, of the last batch that was about full
        self._budget = BatchBudget(spec.batch_tokens)
        self._listener: BatchListener = _NoListener()
        self._failures = metrics.failures
        labels = (spec.model, spec.device)
        self._up = metrics.worker_up.labels(*labels)
        self._restarts = metrics.worker_restarts.labels(*labels)
        self._budget_gauge = metrics.batch_budget.labels(*labels)
        self._changed = changed
        self._names = {"model": spec.model, "device": spec.device}
        child = ChildSpec(
            *("worker", "the model is loading", lambda: self._made(spec), spec.timeouts),
            *(_MINIMUM_TOKENS, self._names),
        )
        self._slot: ModelSlot = ChildSlot(child, self, peers, clock)
        self._budget_gauge.set(self.budget)

    @property
    def state(self) -> State:
        """Whether the worker is loading, ready or down."""
        return self._slot.state

    @property
    def reason(self) -> str:
        """Why the worker is not ready."""
        return self._slot.reason

    @property
    def failed_starts(self) -> int:
        """Starts that failed in a row."""
        return self._slot.failed_starts

    @property
    def start_failure(self) -> str:
        """Why the last start failed."""
        return self._slot.start_failure

    @property
    def is_hopeless(self) -> bool:
        """Tell whether many starts in a row have failed."""
        return self._slot.is_hopeless

    @property
    def worker(self) -> Worker:
        """The worker that is here now."""
        return self._slot.child

    @property
    def budget(self) -> int:
        """Padded tokens that a batch may hold."""
        return self._budget.tokens

    @property
    def batches(self) -> int:
        """Batches that run or wait at the worker."""
        return self._slot.task_count

    @property
    def full_seconds(self) -> float:
        """Return about how long a full batch takes; 0 while nothing is known."""
        return self._full_pace * self.budget

    @property
    def seconds_left(self) -> float:
        """Return about how long the batch that runs still takes; 0 while nothing is known."""
        batch = self._slot.running
        if batch is None:
            return 0.0
        return max(0.0, self._full_pace * batch.padded_tokens - self._slot.running_seconds)

    def start(self, listener: BatchListener) -> None:
        """Let the worker load the model, and report it and its batches to `listener`."""
        self._listener = listener
        self._slot.start()

    def submit(self, batch: Batch) -> None:
        """Give the worker a batch; it runs behind those it already has."""
        self._slot.assign(batch, batch.padded_tokens)
        self.worker.submit(batch)

    def kill(self) -> None:
        """End the worker now, without a replacement."""
        self._slot.kill()

    async def stop(self) -> None:
        """Let the worker end; the slot stays empty."""
        await self._slot.stop()

    def _made(self, spec: WorkerSpec) -> Worker:
        if self.info is None or spec.remake is None:
            return spec.make()
        return spec.remake(self.info)

    def on_message(self, message: Message) -> None:
        """Handle a message of the worker."""
        match message:
            case Ready():
                self._on_ready(message)
            case LoadFailed(reason):
                self._slot.mark_failed(reason)
            case Done() | Failed():
                self._on_batch_end(message)

    def on_lost(self, loss: Loss[Batch]) -> None:
        """Report the loss of the worker."""
        if loss.was_ready:
            self._up.dec()
        if loss.was_hung:
            self._failures.labels("worker_hung").inc()
        self._changed()
        self._listener.on_lost(loss.running, loss.waiting, loss.reason)

    def on_restart(self) -> None:
        """Count the replacement."""
        self._restarts.inc()

    def _on_ready(self, ready: Ready) -> None:
        self.info = ready.info
        self._slot.mark_ready(ready.seconds_per_token)
        self._full_pace = self._full_pace or ready.seconds_per_token
        self._up.inc()
        _log.info("worker ready", extra=self._names)
        self._changed()
        self._listener.on_ready(ready)

    def _on_batch_end(self, message: Done | Failed) -> None:
        batch, self.seconds = self._slot.finish()
        if 2 * batch.padded_tokens >= self.budget:
            self._full_pace = self.seconds / batch.padded_tokens
        self._fit_budget(batch, message)
        if isinstance(message, Done):
            self._listener.on_done(batch, message, self)
        else:
            self._listener.on_failed(batch, message, self)

    def _fit_budget(self, batch: Batch, message: Done | Failed) -> None:
        if isinstance(message, Failed) and message.memory:
            self._budget.shrink(batch.padded_tokens)
            _log.warning(
                "device memory is short, batches are halved",
                extra={**self._names, "tokens": self.budget},
            )
        else:
            self._budget.grow(batch.padded_tokens)
        self._budget_gauge.set(self.budget)
