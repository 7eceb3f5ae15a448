"""A pool of child processes that do tasks which are independent of each other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from elmo_serve.errors import Unavailable
from elmo_serve.metrics import Metrics
from elmo_serve.workers.child_process import ChildProcess
from elmo_serve.workers.clock import EVENT_LOOP_CLOCK, Clock
from elmo_serve.workers.devices import cores
from elmo_serve.workers.shared_memory import Segment, SharedMemoryPool
from elmo_serve.workers.supervisor import ChildSlot, ChildSpec, Loss
from elmo_serve.workers.task_messages import Part, Started
from elmo_serve.workers.watchdog import Timeouts

TaskT = TypeVar("TaskT")

_TASKS_AHEAD = 2
"""Tasks given to one process: one runs and one waits. More would wait behind a slow process."""

_ATTEMPTS = 2
"""Processes that may be lost over one task before its request is refused."""


@dataclass(frozen=True, slots=True)
class TaskKind:
    """The kind of tasks that a pool does.

    `name` is the label of its processes, log lines and failures: `json` for `elmo-json`,
    `JSON process` and `json_lost`. `work` is the main function of a process. `refusal` opens the
    message for a task that cannot be done now. `minimum_size` is the size below which tasks take
    equally long.
    """

    name: str
    title: str
    work: Callable[..., None]
    refusal: str
    timeouts: Timeouts
    minimum_size: int


@dataclass(slots=True, eq=False)
class Pending(Generic[TaskT]):
    """A task and the future of its result.

    A process finishes its task even after the request has run out of time. `held` are the arrays
    that keep the segments in use until then, or it would write into memory of another request.
    `size` is in the unit of the pool, for the watchdog. `items` are those of all parts so far.
    """

    task: TaskT
    size: int
    future: asyncio.Future[Any]
    segments: tuple[Segment, ...] = ()
    held: tuple[object, ...] = ()
    items: list[Any] = field(default_factory=list)
    attempts: int = 0


class TaskPool(Generic[TaskT]):
    """A few processes, and the tasks that wait for one of them."""

    def __init__(
        self,
        kind: TaskKind,
        count: int | None,
        segments: SharedMemoryPool,
        metrics: Metrics,
        clock: Clock = EVENT_LOOP_CLOCK,
    ) -> None:
        self._kind = kind
        self._waiting: list[Pending[TaskT]] = []
        spec = ChildSpec(
            kind.title,
            "it is starting",
            lambda: ChildProcess(f"elmo-{kind.name}", kind.work, (), segments),
            kind.timeouts,
            kind.minimum_size,
        )
        peers: list[ChildSlot[ChildProcess, Any, Pending[TaskT]]] = []
        self._slots = [
            _Slot(self, spec, peers, metrics, clock) for _ in range(count or _default_count())
        ]

    @property
    def kind(self) -> TaskKind:
        """The kind of tasks."""
        return self._kind

    def start(self) -> None:
        """Spawn the processes."""
        for slot in self._slots:
            slot.supervised.start()

    async def stop(self) -> None:
        """End the processes."""
        await asyncio.gather(*(slot.supervised.stop() for slot in self._slots))

    @property
    def ready_count(self) -> int:
        """Processes that can take tasks."""
        return sum(slot.supervised.is_ready for slot in self._slots)

    def submit(
        self,
        task: TaskT,
        size: int,
        segments: tuple[Segment, ...] = (),
        held: tuple[object, ...] = (),
        *,
        first: bool = False,
    ) -> Pending[TaskT]:
        """Queue a task, with `first` before all tasks that have not begun."""
        future = asyncio.get_running_loop().create_future()
        pending = Pending(task, size, future, segments, held)
        self._waiting.insert(0 if first else len(self._waiting), pending)
        self.dispatch()
        return pending

    def dispatch(self) -> None:
        """Give waiting tasks to the processes that are ready and have the fewest."""
        ready = [slot for slot in self._slots if slot.supervised.is_ready]
        while self._waiting and ready:
            slot = min(ready, key=lambda slot: slot.supervised.task_count)
            if slot.supervised.task_count >= _TASKS_AHEAD:
                return
            pending = self._waiting.pop(0)
            if not pending.future.done():
                slot.submit(pending)

    def on_lost(self, loss: Loss[Pending[TaskT]]) -> None:
        """Queue the tasks of a lost process again.

        The task that it was working on may have killed it, and is tried once more at most. While no
        process can be started, nothing waits.
        """
        tasks = list(loss.waiting)
        if loss.running is not None:
            tasks.insert(0, loss.running)
            loss.running.attempts += 1
        for pending in reversed(tasks):
            pending.items.clear()
            if pending.attempts < _ATTEMPTS:
                self._waiting.insert(0, pending)
            else:
                self._refuse(pending, loss.reason)
        if all(slot.supervised.failed_starts for slot in self._slots):
            for pending in self._waiting:
                self._refuse(pending, loss.reason)
            self._waiting.clear()
        self.dispatch()

    def _refuse(self, pending: Pending[TaskT], reason: str) -> None:
        """Fail the request for now."""
        if not pending.future.done():
            detail = f"{self._kind.refusal}: {reason}."
            pending.future.set_exception(Unavailable(detail, retry_after=1))


class _Slot(Generic[TaskT]):
    """A place for one process of the pool."""

    def __init__(
        self,
        pool: TaskPool[TaskT],
        spec: ChildSpec[ChildProcess],
        peers: list[ChildSlot[ChildProcess, Any, Pending[TaskT]]],
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._pool = pool
        self._metrics = metrics
        self.supervised: ChildSlot[ChildProcess, Any, Pending[TaskT]] = ChildSlot(
            spec, self, peers, clock
        )

    def submit(self, pending: Pending[TaskT]) -> None:
        """Give the process a task."""
        self.supervised.assign(pending, pending.size)
        self.supervised.child.send(pending.task, *pending.segments)

    def on_message(self, message: object) -> None:
        """Handle a message of the process: `Started`, `Part` or the one that ends its task."""
        match message:
            case Started():
                self.supervised.mark_ready()
            case Part(items):
                running = self.supervised.running
                if running is not None:
                    running.items += items
                self.supervised.renew()
                return
            case _:
                pending, _ = self.supervised.finish()
                if not pending.future.done():
                    pending.future.set_result(message)
        self._pool.dispatch()

    def on_lost(self, loss: Loss[Pending[TaskT]]) -> None:
        """Report the loss of the process."""
        how = "hung" if loss.was_hung else "lost"
        self._metrics.failures.labels(f"{self._pool.kind.name}_{how}").inc()
        self._pool.on_lost(loss)

    def on_restart(self) -> None:
        """Count nothing: the loss is counted."""


def _default_count() -> int:
    """Return half the cores: few clients use these processes, and the network uses all cores."""
    return max(1, min(8, cores() // 2))
