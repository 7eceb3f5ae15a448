"""A pool of helper processes: functions run in them that would block the event loop."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from elmo_serve.errors import ServiceError, Unavailable
from elmo_serve.processes.arena import Arena, Block, BlockName
from elmo_serve.processes.channel import Parent
from elmo_serve.processes.child import ChildProcess
from elmo_serve.processes.clock import EVENT_LOOP_CLOCK, Clock
from elmo_serve.processes.slot import Child, LostTasks, Slot, SlotListener, SlotSpec, Started

if TYPE_CHECKING:  # the processes import this module and keep no metrics
    from elmo_serve.metrics import Metrics

_CALLS_AHEAD = 2
"""Calls given to one process: one runs and one waits. More would wait behind a slow process."""

_CALL_SECONDS = 30.0
"""Seconds of a call after which its process counts as hung: more than ten times the longest call on
two busy cores."""

_ATTEMPTS = 2
"""Processes that may be lost over one call before its request is refused.
An exception of a function loses none."""


class HelperError(Exception):
    """A function failed in a helper process with an unexpected exception; the text is its trace."""


@dataclass(frozen=True, slots=True)
class Call:
    """The message that gives a process its next function; a `Block` among `arguments` is named."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def work(parent: Parent, prepare: Callable[[], None] | None) -> None:
    """Run functions in a process until the server closes the channel.

    A function that fails, or whose result cannot be sent, ends its call with an exception: the
    process goes on.
    """
    if prepare is not None:
        prepare()
    parent.send(Started())
    while True:
        call: Call = parent.receive()
        arguments = (
            parent.memory(each) if isinstance(each, BlockName) else each for each in call.arguments
        )
        try:
            parent.send(call.function(*arguments))
        except BaseException as error:  # a panic of a library in Rust is no `Exception`
            parent.send(_sendable(error))


def _sendable(error: BaseException) -> Exception:
    """Return an exception that the server can unpickle; it knows these, and logs all others."""
    if isinstance(error, (ServiceError, MemoryError, OSError)):
        return error
    return HelperError("".join(traceback.format_exception(error)).rstrip())


def runs(sizes: Iterable[int], most_size: int, most_items: int = sys.maxsize) -> Iterator[slice]:
    """Cut items of these sizes into runs of about `most_size` and at most `most_items`."""
    start, end, size = 0, 0, 0
    for end, each in enumerate(sizes, start=1):
        size += each
        if size >= most_size or end - start == most_items:
            yield slice(start, end)
            start, size = end, 0
    if start < end:
        yield slice(start, end)


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """The processes of one pool.

    Attributes:
        name: the label of the processes and failures: `write` for `elmo-write` and `write_lost`.
        title: a process in words, for the log and for messages.
        is_lazy: whether the processes are spawned for the first call.
        prepare: slow one-time initialisation, run in each process when it starts.
    """

    name: str
    title: str
    is_lazy: bool = False
    prepare: Callable[[], None] | None = None


@dataclass(slots=True, eq=False)
class Pending:
    """A call and the future of its result.

    `output` is the size in bytes of the block that the function writes to; 0 for a function that
    returns its result.
    """

    call: Call
    output: int
    future: asyncio.Future[Any]
    attempts: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """A call that a process was given.

    The process may write to `output`, a block of this attempt alone, until it has answered or has
    ended: also after the request has ended, or the call was given to another process. So long the
    slot keeps the attempt.
    """

    pending: Pending
    call: Call
    output: Block | None

    @classmethod
    def of(cls, pending: Pending, arena: Arena) -> Self:
        """Return an attempt with a new block. Raises Unavailable where memory is short."""
        if not pending.output:
            return cls(pending, pending.call, None)
        block, call = arena.acquire(pending.output), pending.call
        return cls(pending, replace(call, arguments=(block, *call.arguments)), block)

    def finish(self, message: object) -> None:
        """Pass the result, or the error, to the caller."""
        future = self.pending.future
        if future.done():
            return
        if isinstance(message, Exception):
            future.set_exception(message)
        elif self.output is not None:
            future.set_result(self.output.array[:message].data)
        else:
            future.set_result(message)


class HelperPool(SlotListener[Attempt]):
    """A few processes for one kind of functions, and the calls that wait for one of them.

    Calls are begun in the order they came. There are `count` processes, which `make` makes.
    """

    def __init__(
        self,
        options: PoolOptions,
        arena: Arena,
        metrics: Metrics,
        clock: Clock = EVENT_LOOP_CLOCK,
        *,
        count: int = 1,
        make: Callable[[], Child] | None = None,
    ) -> None:
        self.options = options
        self.arena = arena
        self._metrics = metrics
        self._is_started = False
        self._waiting: deque[Pending] = deque()
        name, arguments = f"elmo-{options.name}", (options.prepare,)
        make = make or partial(ChildProcess, name, work, arguments, arena)
        spec = SlotSpec(
            name=options.title,
            loading="it is starting",
            make=lambda _: make(),
            silent_seconds=_CALL_SECONDS,
        )
        self._slots = [Slot[Attempt](spec, self, clock) for _ in range(count)]

    def start(self) -> None:
        """Spawn the processes, unless they are spawned for the first call."""
        if not self.options.is_lazy:
            self._start()

    async def stop(self) -> None:
        """End the processes."""
        await asyncio.gather(*(slot.stop() for slot in self._slots))

    def run(
        self, function: Callable[..., Any], *arguments: object, output: int = 0
    ) -> asyncio.Future[Any]:
        """Queue `function(*arguments)`, or `function(memory, *arguments)` with `output`.

        The function is one of a module, and the arguments can be pickled. A `Block` among them
        reaches the function as bytes and stays in use until the process has done with it. With
        `output` the function writes to `memory`, so many bytes, and returns the number of those
        that it has written: they are the result.

        When the future is cancelled, the call is not begun. The future raises:

            ServiceError, MemoryError, OSError: the one that the function raises.
            HelperError: it raises another exception, or its result cannot be pickled.
            Unavailable: two processes were lost over the call, none can be started, or memory is
                short.
        """
        future = asyncio.get_running_loop().create_future()
        pending = Pending(Call(function, arguments), output, future)
        self._waiting.append(pending)
        if not self._is_started:
            self._start()
        self.dispatch()
        return future

    def dispatch(self) -> None:
        """Give waiting calls to the processes that are ready and have the fewest."""
        ready = [slot for slot in self._slots if slot.is_ready]
        while self._waiting and ready:
            slot = min(ready, key=lambda slot: slot.task_count)
            if slot.task_count >= _CALLS_AHEAD:
                return
            pending = self._waiting.popleft()
            if pending.future.done():
                continue
            try:
                attempt = Attempt.of(pending, self.arena)
            except Unavailable as error:
                pending.future.set_exception(error)
                continue
            slot.assign(attempt)
            slot.child.send(attempt.call)

    def on_message(self, slot: Slot[Attempt], message: object) -> None:
        """Handle a message of a process: `Started`, or the result or error of its call."""
        if isinstance(message, Started):
            slot.mark_ready()
        else:
            slot.finish().finish(message)
        self.dispatch()

    def on_lost(self, slot: Slot[Attempt], lost: LostTasks[Attempt]) -> None:
        """Count the loss of a process, and queue its calls again.

        The call that it was working on may have killed it, and is tried once more at most. While no
        process can be started, nothing waits.
        """
        how = "hung" if lost.was_hung else "lost"
        self._metrics.failures.labels(f"{self.options.name}_{how}").inc()
        calls = [attempt.pending for attempt in lost.waiting]
        if lost.running is not None:
            calls.insert(0, lost.running.pending)
            lost.running.pending.attempts += 1
        for pending in reversed(calls):
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

    def _refuse(self, pending: Pending, reason: str) -> None:
        """Fail the request for now."""
        if not pending.future.done():
            refusal = Unavailable(f"The request failed for now: {reason}.", retry_after=1)
            pending.future.set_exception(refusal)
