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
from elmo_serve.workers.devices import cores
from elmo_serve.workers.process import ChildProcess
from elmo_serve.workers.shared_memory import Segment, SharedMemoryPool
from elmo_serve.workers.slot import Child, LostTasks, Slot, SlotSpec
from elmo_serve.workers.task_messages import Part, Started
from elmo_serve.workers.watchdog import EVENT_LOOP_CLOCK, Clock, Timeouts

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
        make: Callable[[], Child] | None = None,
    ) -> None:
        self._kind = kind
        self._first: deque[Pending[TaskT]] = deque()
        self._others: deque[Pending[TaskT]] = deque()
        self._metrics = metrics
        make_one = make or partial(ChildProcess, f"elmo-{kind.name}", kind.work, (), segments)
        spec = SlotSpec(
            name=kind.title,
            loading="it is starting",
            make=lambda _: make_one(),
            timeouts=kind.timeouts,
            minimum_size=kind.minimum_size,
        )
        self._slots: list[Slot[Pending[TaskT]]] = []
        for _ in range(count or default_count(cores())):
            Slot(spec, self, self._slots, clock)  # it adds itself to the slots

    @property
    def kind(self) -> TaskKind:
        """The kind of tasks."""
        return self._kind

    def start(self) -> None:
        """Spawn the processes."""
        for slot in self._slots:
            slot.start()

    async def stop(self) -> None:
        """End the processes."""
        await asyncio.gather(*(slot.stop() for slot in self._slots))

    @property
    def ready_count(self) -> int:
        """Processes that can take tasks."""
        return sum(slot.is_ready for slot in self._slots)

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
        ready = [slot for slot in self._slots if slot.is_ready]
        while (waiting := self._first or self._others) and ready:
            slot = min(ready, key=lambda slot: slot.task_count)
            if slot.task_count >= _TASKS_AHEAD:
                return
            pending = waiting.popleft()
            if not pending.future.done():
                slot.assign(pending, pending.size)
                slot.child.send(pending.task, *pending.segments)

    def on_message(self, slot: Slot[Pending[TaskT]], message: object) -> None:
        """Handle a message of a process: `Started`, `Part` or the one that ends its task."""
        match message:
            case Started():
                slot.mark_ready()
            case Part(items):
                if slot.running is not None:
                    slot.running.items += items
                slot.renew()
                self._hurry(slot)
                return
            case _:
                pending = slot.finish()
                if not pending.future.done():
                    pending.future.set_result(message)
                self._hurry(slot)
        self.dispatch()

    def on_restart(self, slot: Slot[Pending[TaskT]]) -> None:
        """Count nothing: the loss is counted."""

    def on_lost(self, slot: Slot[Pending[TaskT]], lost: LostTasks[Pending[TaskT]]) -> None:
        """Count the loss of a process, and queue its tasks again.

        The task that it was working on may have killed it, and is tried once more at most. While no
        process can be started, nothing waits.
        """
        how = "hung" if lost.was_hung else "lost"
        self._metrics.failures.labels(f"{self._kind.name}_{how}").inc()
        tasks = list(lost.waiting)
        if lost.running is not None:
            tasks.insert(0, lost.running)
            lost.running.attempts += 1
        for pending in reversed(tasks):
            pending.items.clear()
            if pending.attempts < _ATTEMPTS:
                self._queue(pending).appendleft(pending)
            else:
                self._refuse(pending, lost.reason)
        if all(slot.failed_starts for slot in self._slots):
            for pending in (*self._first, *self._others):
                self._refuse(pending, lost.reason)
            self._first.clear()
            self._others.clear()
        self.dispatch()

    def _queue(self, pending: Pending[TaskT]) -> deque[Pending[TaskT]]:
        return self._first if pending.first else self._others

    def _on_done(self, pending: Pending[TaskT], _: asyncio.Future[Any]) -> None:
        for slot in self._slots:
            if slot.running is pending:
                self._hurry(slot)

    def _hurry(self, slot: Slot[Pending[TaskT]]) -> None:
        """Give a process little more time for a task that nobody waits for."""
        if slot.running is not None and slot.running.is_abandoned:
            slot.hurry()

    def _refuse(self, pending: Pending[TaskT], reason: str) -> None:
        """Fail the request for now."""
        if not pending.future.done():
            detail = f"{self._kind.refusal}: {reason}."
            pending.future.set_exception(Unavailable(detail, retry_after=1))


def default_count(cores: int) -> int:
    """Return half the cores: few clients use these processes, and the network uses all cores."""
    return max(1, min(8, cores // 2))
