"""A pool of child processes that do tasks which are independent of each other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
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

    A process continues its task after the request has ended. `held` are the arrays that keep the
    segments in use until then, or it would write into memory of another request. `size` is in the
    unit of the pool, for the watchdog. `items` are those of all parts so far. Tasks that are
    `first` are begun before all others.
    """

    task: TaskT
    size: int
    future: asyncio.Future[Any]
    segments: tuple[Segment, ...] = ()
    held: tuple[object, ...] = ()
    first: bool = False
    items: list[Any] = field(default_factory=list)
    attempts: int = 0

    @property
    def is_abandoned(self) -> bool:
        """Tell whether nobody waits for the result."""
        return self.future.cancelled()


class TaskPool(Generic[TaskT]):
    """A few processes, and the tasks that wait for one of them.

    Tasks wait in two queues, each first in, first out. `make` makes processes other than those
    that run the function of `kind`.
    """

    def __init__(
        self,
        kind: TaskKind,
        count: int | None,
        segments: SharedMemoryPool,
        metrics: Metrics,
        clock: Clock = EVENT_LOOP_CLOCK,
        make: Callable[[], ChildProcess] | None = None,
    ) -> None:
        self._kind = kind
        self._first: deque[Pending[TaskT]] = deque()
        self._others: deque[Pending[TaskT]] = deque()
        spec = ChildSpec(
            kind.title,
            "it is starting",
            make or partial(ChildProcess, f"elmo-{kind.name}", kind.work, (), segments),
            kind.timeouts,
            kind.minimum_size,
        )
        peers: list[ChildSlot[ChildProcess, Any, Pending[TaskT]]] = []
        self._slots = [
            _Slot(self, spec, peers, metrics, clock) for _ in range(count or default_count(cores()))
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
        """Queue a task, with `first` before all others that are not `first`.

        When its future is cancelled, the task is not begun. A process that has begun it gets the
        shortest timeout of a task to end it, and is replaced otherwise.
        """
        future = asyncio.get_running_loop().create_future()
        pending = Pending(task, size, future, segments, held, first)
        future.add_done_callback(partial(self._on_done, pending))
        self._queue(pending).append(pending)
        self.dispatch()
        return pending

    def dispatch(self) -> None:
        """Give waiting tasks to the processes that are ready and have the fewest."""
        ready = [slot for slot in self._slots if slot.supervised.is_ready]
        while (waiting := self._first or self._others) and ready:
            slot = min(ready, key=lambda slot: slot.supervised.task_count)
            if slot.supervised.task_count >= _TASKS_AHEAD:
                return
            pending = waiting.popleft()
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
                self._queue(pending).appendleft(pending)
            else:
                self._refuse(pending, loss.reason)
        if all(slot.supervised.failed_starts for slot in self._slots):
            for pending in (*self._first, *self._others):
                self._refuse(pending, loss.reason)
            self._first.clear()
            self._others.clear()
        self.dispatch()

    def _queue(self, pending: Pending[TaskT]) -> deque[Pending[TaskT]]:
        return self._first if pending.first else self._others

    def _on_done(self, pending: Pending[TaskT], _: asyncio.Future[Any]) -> None:
        for slot in self._slots:
            slot.hurry(pending)

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

    def hurry(self, pending: Pending[TaskT] | None) -> None:
        """Give the process little more time for a task that it works on in vain."""
        if pending is not None and self.supervised.running is pending and pending.is_abandoned:
            self.supervised.hurry()

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
                self.hurry(running)
                return
            case _:
                pending, _ = self.supervised.finish()
                if not pending.future.done():
                    pending.future.set_result(message)
                self.hurry(self.supervised.running)
        self._pool.dispatch()

    def on_lost(self, loss: Loss[Pending[TaskT]]) -> None:
        """Report the loss of the process."""
        how = "hung" if loss.was_hung else "lost"
        self._metrics.failures.labels(f"{self._pool.kind.name}_{how}").inc()
        self._pool.on_lost(loss)

    def on_restart(self) -> None:
        """Count nothing: the loss is counted."""


def default_count(cores: int) -> int:
    """Return half the cores: few clients use these processes, and the network uses all cores."""
    return max(1, min(8, cores // 2))
