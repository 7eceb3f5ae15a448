"""The slots where workers sit: started, watched, replaced when they fall."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from elmo_serve.metrics import Metrics
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
from elmo_serve.workers.watchdog import LatencyEstimate, Timeouts, Watchdog

_log = logging.getLogger("elmo_serve.workers")

_LEAST_TOKENS = 256  # a batch below this is bound by latency, not by its tokens
_FIRST_DELAY, _LONGEST_DELAY = 0.1, 30.0
_SOUND_SECONDS = 60.0
_HOPELESS_STARTS = 5
_PROBATION_BATCHES = 32  # large batches without a failure, before a larger one is tried

_LONGEST_AHEAD_SECONDS = 0.03  # of a full batch: beside a longer one the pause is 2 % or less
_LEAST_WAIT_SECONDS = 0.001  # the event loop knows no shorter one
_AHEAD_SECONDS = 0.005  # before a batch is done: some times the pause between two

_LOADING = "the model is loading"

State = Literal["loading", "ready", "down"]


class BatchListener(Protocol):
    """Is called when something happens to a worker or its batches: the scheduler.

    A slot has finished its own bookkeeping before it calls, so the listener may submit the next
    batch from within any of these methods.
    """

    def on_ready(self, ready: Ready) -> None:
        """A slot can take batches."""

    def on_done(self, batch: Batch, done: Done, slot: WorkerSlot) -> None:
        """A batch is in its segment."""

    def on_failed(self, batch: Batch, failed: Failed, slot: WorkerSlot) -> None:
        """A batch raised; the worker lives."""

    def on_lost(self, running: Batch | None, waiting: Sequence[Batch], reason: str) -> None:
        """A worker is gone, in the middle of ``running``, before it came to ``waiting``."""


class _NoListener:
    """The listener of a slot that is not started: nothing happens to it yet."""

    def on_ready(self, ready: Ready) -> None: ...
    def on_done(self, batch: Batch, done: Done, slot: WorkerSlot) -> None: ...
    def on_failed(self, batch: Batch, failed: Failed, slot: WorkerSlot) -> None: ...
    def on_lost(self, running: Batch | None, waiting: Sequence[Batch], reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """A place for a worker: its device, its largest batch, and how to make one."""

    device: str
    batch_tokens: int
    make: Callable[[], Worker]
    timeouts: Timeouts = field(default_factory=Timeouts)


class WorkerSlot:
    """A place for a worker, and whoever sits there now."""

    def __init__(
        self,
        plan: WorkerSpec,
        metrics: Metrics,
        changed: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self.device = plan.device
        self.budget = plan.batch_tokens
        self.state: State = "loading"
        self.reason = _LOADING
        self.info: ModelInfo | None = None
        self.failed_starts = 0
        self.failure = ""  # why the last start failed
        self.worker: Worker = plan.make()
        self._plan = plan
        self._listener: BatchListener = _NoListener()
        self._metrics = metrics
        self._changed = changed
        self._clock = clock
        self._assigned: deque[Batch] = deque()
        self._watch = Watchdog(self._lose_patience)
        self._pace = LatencyEstimate(plan.timeouts, _LEAST_TOKENS)
        self._restart: asyncio.TimerHandle | None = None
        self.seconds = 0.0  # that the last batch took, as seen from here: its way included
        self._began = 0.0
        self._full_pace = 0.0  # seconds a padded token, of the last batch that was about full
        self._ready_since = 0.0
        self._delay = _FIRST_DELAY
        self._sound_batches = 0
        self._stopping = False
        metrics.worker_up.labels(plan.device).inc(0)
        metrics.worker_restarts.labels(plan.device).inc(0)
        metrics.batch_budget.labels(plan.device).set(self.budget)

    @property
    def batches(self) -> int:
        """Batches that run or wait at the worker."""
        return len(self._assigned)

    @property
    def full_seconds(self) -> float:
        """Return about how long a full batch takes; 0 while nothing is known."""
        return self._full_pace * self.budget

    @property
    def seconds_left(self) -> float:
        """Return about how long the batch that runs still takes; 0 while nothing is known."""
        if not self._assigned:
            return 0.0
        end = self._began + self._full_pace * self._assigned[0].padded_tokens
        return max(0.0, end - self._clock())

    def start(self, listener: BatchListener) -> None:
        """Let the worker load the model, and report it and its batches to `listener`."""
        self._listener = listener
        self._load()

    def _load(self) -> None:
        self._watch.expect(self._plan.timeouts.load)
        worker = self.worker
        worker.start(
            lambda message: self._said(message) if worker is self.worker else None,
            lambda reason: self._ended(reason) if worker is self.worker else None,
        )

    def submit(self, batch: Batch) -> None:
        """Give the worker a batch; it runs behind those it already has."""
        self._assigned.append(batch)
        if len(self._assigned) == 1:
            self._began = self._clock()
            self._expect_next()
        self.worker.submit(batch)

    async def stop(self) -> None:
        """Let the worker end; the slot stays empty."""
        self._stopping = True
        self._watch.expect(None)
        if self._restart is not None:
            self._restart.cancel()
        if self.state == "loading":
            self.worker.kill()
        if self._restart is None or self.state != "down":
            await self.worker.stop()

    def _said(self, message: Message) -> None:
        match message:
            case Ready():
                self._sit_down(message)
            case LoadFailed(reason):
                self.reason = reason  # the worker ends by itself
            case Done() | Failed():
                self._batch_ended(message)

    def _sit_down(self, ready: Ready) -> None:
        self.info = ready.info
        self.state, self.reason = "ready", ""
        self.failed_starts = 0
        self._ready_since = self._clock()
        self._watch.expect(None)
        self._pace.start_from(ready.seconds_per_token)
        self._full_pace = self._full_pace or ready.seconds_per_token
        self._metrics.worker_up.labels(self.device).inc()
        _log.info("worker ready", extra={"device": self.device, "model": ready.info.name})
        self._changed()
        self._listener.on_ready(ready)

    def _batch_ended(self, message: Done | Failed) -> None:
        batch = self._assigned.popleft()
        now = self._clock()
        self.seconds, self._began = now - self._began, now
        self._pace.learn(batch.padded_tokens, self.seconds)
        if 2 * batch.padded_tokens >= self.budget:
            self._full_pace = self.seconds / batch.padded_tokens
        self._fit_budget(batch, message)
        self._expect_next()
        if isinstance(message, Done):
            self._listener.on_done(batch, message, self)
        else:
            self._listener.on_failed(batch, message, self)

    def _ended(self, reason: str) -> None:
        if self._stopping:
            return
        was = self.state
        said, self.state = self.reason, "down"
        self.reason = said if was == "loading" and said != _LOADING else f"the worker {reason}"
        if was == "ready":
            self._metrics.worker_up.labels(self.device).dec()
            if self._clock() - self._ready_since > _SOUND_SECONDS:
                self._delay = _FIRST_DELAY
        else:
            self.failed_starts += 1
            self.failure = self.reason
        self._watch.expect(None)
        running, waiting = None, list(self._assigned)
        self._assigned.clear()
        if was == "ready" and waiting:
            running = waiting.pop(0)
        _log.error("worker lost", extra={"device": self.device, "reason": self.reason})
        self._restart = asyncio.get_running_loop().call_later(self._delay, self._replace)
        self._delay = min(2 * self._delay, _LONGEST_DELAY)
        self._changed()
        self._listener.on_lost(running, waiting, self.reason)

    def _replace(self) -> None:
        self._restart = None
        self.state, self.reason = "loading", _LOADING
        self._metrics.worker_restarts.labels(self.device).inc()
        self.worker = self._plan.make()
        self._load()

    def _expect_next(self) -> None:
        """Wait for the batch that runs now, if there is one."""
        size = self._assigned[0].padded_tokens if self._assigned else None
        self._watch.expect(None if size is None else self._pace.bound(size))

    def _lose_patience(self, seconds: float) -> None:
        _log.error(
            "worker hangs", extra={"device": self.device, "silent_seconds": round(seconds, 1)}
        )
        self._metrics.failures.labels("worker_hung").inc()
        self.worker.kill()

    def _fit_budget(self, batch: Batch, message: Done | Failed) -> None:
        """Halve the batches that the device had no memory for; let them grow back slowly."""
        if isinstance(message, Failed) and message.memory:
            # Of what failed, not of the budget: a batch cut before the last halving says no more.
            self.budget = max(1, min(self.budget, batch.padded_tokens // 2))
            self._sound_batches = 0
            _log.warning(
                "device memory is short, batches are halved",
                extra={"device": self.device, "tokens": self.budget},
            )
        elif self.budget < self._plan.batch_tokens and 2 * batch.padded_tokens > self.budget:
            self._sound_batches += 1
            if self._sound_batches >= _PROBATION_BATCHES:
                self._sound_batches = 0
                self.budget = min(self._plan.batch_tokens, self.budget + self.budget // 8 + 1)
        self._metrics.batch_budget.labels(self.device).set(self.budget)


class WorkerPool:
    """All slots. Ready while one of them is; fit while one of them may be again."""

    def __init__(
        self,
        plans: Sequence[WorkerSpec],
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._changes = asyncio.Event()
        self.slots = [WorkerSlot(plan, metrics, self._changes.set, clock) for plan in plans]

    def start(self, listener: BatchListener) -> None:
        """Start a worker in every slot, and report them and their batches to `listener`."""
        for slot in self.slots:
            slot.start(listener)

    async def stop(self) -> None:
        """Let every worker end."""
        await asyncio.gather(*(slot.stop() for slot in self.slots))

    async def first_outcome(self) -> str | None:
        """Wait for the first start: None once a worker is ready, the reason when none can be."""
        while True:
            if self.is_ready:
                return None
            if all(slot.failed_starts for slot in self.slots):
                return self.slots[0].failure  # its reason may be that it loads again
            self._changes.clear()
            await self._changes.wait()

    @property
    def ready_count(self) -> int:
        """Workers that can answer."""
        return sum(slot.state == "ready" for slot in self.slots)

    @property
    def is_ready(self) -> bool:
        """Say whether a worker can answer."""
        return self.ready_count > 0

    @property
    def is_fit(self) -> bool:
        """Say whether this process can still recover by itself."""
        return any(slot.failed_starts < _HOPELESS_STARTS for slot in self.slots)

    @property
    def reason(self) -> str:
        """Why no worker is ready."""
        return "; ".join(dict.fromkeys(f"{slot.device}: {slot.reason}" for slot in self.slots))

    @property
    def info(self) -> ModelInfo | None:
        """What the workers found in the checkpoint, once one of them is or was ready."""
        return next((slot.info for slot in self.slots if slot.info), None)

    def free(self, queued_tokens: int) -> WorkerSlot | None:
        """Return the slot that should get the next batch.

        An idle worker takes what there is. A busy one is given one batch ahead, only a full one and
        only where batches are short: the pause between two is about half a millisecond. And only
        shortly before it is done, since those who arrive in the meantime wait behind it: when that
        will be is known to some tenths of a batch, which is why long ones are not given ahead.
        """
        slot = self._least_busy()
        if slot is None or (slot.batches and not self._takes_ahead(slot, queued_tokens)):
            return None
        return slot if slot.seconds_left <= _AHEAD_SECONDS else None

    def free_in(self, queued_tokens: int) -> float | None:
        """Return the seconds after which a slot that is busy now is to be looked at again."""
        slot = self._least_busy()
        if slot is None or not self._takes_ahead(slot, queued_tokens):
            return None
        return max(_LEAST_WAIT_SECONDS, slot.seconds_left - _AHEAD_SECONDS)

    def _least_busy(self) -> WorkerSlot | None:
        ready = [slot for slot in self.slots if slot.state == "ready"]
        return min(ready, key=lambda slot: (slot.batches, slot.seconds_left), default=None)

    def _takes_ahead(self, slot: WorkerSlot, queued_tokens: int) -> bool:
        return (
            slot.batches == 1
            and queued_tokens >= slot.budget
            and slot.full_seconds <= _LONGEST_AHEAD_SECONDS
        )
