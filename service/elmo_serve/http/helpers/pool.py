"""A pool of helper processes: functions run in them that would block the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from elmo_serve.errors import Unavailable
from elmo_serve.http.helpers.process import Call, Memory, ResultSlice, SlicedResult, work
from elmo_serve.workers.process import ChildProcess
from elmo_serve.workers.shared_memory import Segment, SharedMemoryPool
from elmo_serve.workers.slot import Child, LostTasks, Slot, SlotListener, SlotSpec, Started
from elmo_serve.workers.watchdog import EVENT_LOOP_CLOCK, Clock, Timeouts

if TYPE_CHECKING:  # the processes import this module, keep no metrics and receive no bodies
    from elmo_serve.http.calls.body import Body
    from elmo_serve.metrics import Metrics

_CALLS_AHEAD = 2
"""Calls given to one process: one runs and one waits. More would wait behind a slow process."""

_ATTEMPTS = 2
"""Processes that may be lost over one call before its request is refused.
An exception of a function loses none."""


def _nothing() -> None:
    """Prepare nothing."""


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """The processes of one pool.

    Attributes:
        name: the label of the processes and failures: `write` for `elmo-write` and `write_lost`.
        title: a process in words, for the log and for messages.
        refusal: opens the message for a call that cannot be done now.
        timeouts: how long a process may be silent.
        minimum_size: the size below which calls take equally long.
        is_lazy: whether the processes are spawned for the first call.
        prepare: slow one-time initialisation, run in each process when it starts.
    """

    name: str
    title: str
    refusal: str
    timeouts: Timeouts
    minimum_size: int
    is_lazy: bool = False
    prepare: Callable[[], None] = _nothing


@dataclass(slots=True, eq=False)
class Pending:
    """A call and the future of its result.

    A process continues its call after the request has ended: until then the memory among the
    arguments stays in use, or it would write into memory of another request. `size` is in the unit
    of the pool, for the watchdog. `items` are those of all slices so far.
    """

    call: Call
    size: int
    future: asyncio.Future[Any]
    items: list[Any] = field(default_factory=list)
    attempts: int = 0

    @property
    def segments(self) -> list[Segment]:
        """The segments that the arguments name."""
        return [each.segment for each in self.call.arguments if isinstance(each, Memory)]

    def finish(self, message: object) -> None:
        """Pass the result, or the error, to the caller."""
        if self.future.done():
            return
        if isinstance(message, Exception):
            self.future.set_exception(message)
        elif isinstance(message, SlicedResult):
            self.future.set_result(message.with_list(self.items))
        else:
            self.future.set_result(message)


class HelperPool(SlotListener[Pending]):
    """A few processes for one kind of functions, and the calls that wait for one of them.

    Calls are begun in the order they came. There are `count` processes, which `make` makes.
    """

    def __init__(
        self,
        options: PoolOptions,
        segments: SharedMemoryPool,
        metrics: Metrics,
        clock: Clock = EVENT_LOOP_CLOCK,
        *,
        count: int = 1,
        make: Callable[[], Child] | None = None,
    ) -> None:
        self.options = options
        self.segments = segments
        self._metrics = metrics
        self._is_started = False
        self._waiting: deque[Pending] = deque()
        name, arguments = f"elmo-{options.name}", (options.prepare,)
        make = make or partial(ChildProcess, name, work, arguments, segments)
        spec = SlotSpec(
            name=options.title,
            loading="it is starting",
            make=lambda _: make(),
            timeouts=options.timeouts,
            minimum_size=options.minimum_size,
        )
        self._slots = [Slot[Pending](spec, self, clock) for _ in range(count)]

    def start(self) -> None:
        """Spawn the processes, unless they are spawned for the first call."""
        if not self.options.is_lazy:
            self._start()

    async def stop(self) -> None:
        """End the processes."""
        await asyncio.gather(*(slot.stop() for slot in self._slots))

    def run(
        self, function: Callable[..., Any], *arguments: object, size: int
    ) -> asyncio.Future[Any]:
        """Queue `function(*arguments)`.

        The function is one of a module, and the arguments can be pickled. `Memory` among them
        reaches the function as bytes and stays in use until the process has done with it.

        When the future is cancelled, the call is not begun. A process that has begun it gets the
        shortest timeout of a call to end it, and is replaced otherwise. The future raises:

            ServiceError, MemoryError, OSError: the one that the function raises.
            HelperError: it raises another exception, or its result cannot be pickled.
            Unavailable: two processes were lost over the call, or none can be started.
        """
        future = asyncio.get_running_loop().create_future()
        pending = Pending(Call(function, arguments), size, future)
        future.add_done_callback(partial(self._on_done, pending))
        self._waiting.append(pending)
        if not self._is_started:
            self._start()
        self.dispatch()
        return future

    def run_on(
        self, body: Body, function: Callable[..., Any], *arguments: object
    ) -> asyncio.Future[Any]:
        """Queue `function(memory, size, *arguments)` on a body, and free its pieces.

        As `run`. Raises Unavailable where memory is short.
        """
        size = body.size
        segment, array = self.segments.acquire(max(size, 1))
        body.move_to(array)
        return self.run(function, Memory(segment, array), size, *arguments, size=size)

    def dispatch(self) -> None:
        """Give waiting calls to the processes that are ready and have the fewest."""
        ready = [slot for slot in self._slots if slot.is_ready]
        while self._waiting and ready:
            slot = min(ready, key=lambda slot: slot.task_count)
            if slot.task_count >= _CALLS_AHEAD:
                return
            pending = self._waiting.popleft()
            if not pending.future.done():
                slot.assign(pending, pending.size)
                slot.child.send(pending.call, *pending.segments)

    def on_message(self, slot: Slot[Pending], message: object) -> None:
        """Handle a message of a process: `Started`, `ResultSlice` or the one that ends its call."""
        match message:
            case Started():
                slot.mark_ready()
            case ResultSlice(items):
                if slot.running is not None:
                    slot.running.items += items
                slot.renew()
                _shorten_timeout(slot)
                return
            case _:
                slot.finish().finish(message)
                _shorten_timeout(slot)
        self.dispatch()

    def on_lost(self, slot: Slot[Pending], lost: LostTasks[Pending]) -> None:
        """Count the loss of a process, and queue its calls again.

        The call that it was working on may have killed it, and is tried once more at most. While no
        process can be started, nothing waits.
        """
        how = "hung" if lost.was_hung else "lost"
        self._metrics.failures.labels(f"{self.options.name}_{how}").inc()
        calls = list(lost.waiting)
        if lost.running is not None:
            calls.insert(0, lost.running)
            lost.running.attempts += 1
        for pending in reversed(calls):
            pending.items.clear()
            if pending.attempts < _ATTEMPTS:
                self._waiting.appendleft(pending)
            else:
                self._refuse(pending, lost.reason)
        if all(slot.failed_starts for slot in self._slots):
            for pending in self._waiting:
                self._refuse(pending, lost.reason)
            self._waiting.clear()
        self.dispatch()

    def _start(self) -> None:
        self._is_started = True
        for slot in self._slots:
            slot.start()

    def _on_done(self, pending: Pending, _: asyncio.Future[Any]) -> None:
        for slot in self._slots:
            if slot.running is pending:
                _shorten_timeout(slot)

    def _refuse(self, pending: Pending, reason: str) -> None:
        """Fail the request for now."""
        pending.finish(Unavailable(f"{self.options.refusal}: {reason}.", retry_after=1))


def _shorten_timeout(slot: Slot[Pending]) -> None:
    """Give a process little more time for a call whose result nobody waits for."""
    if slot.running is not None and slot.running.future.cancelled():
        slot.hurry()
