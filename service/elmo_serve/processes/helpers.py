"""The helpers: a pool of processes for work of requests that would block the event loop."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from elmo_serve.errors import ServiceError, Unavailable
from elmo_serve.processes.arena import Arena, Block, BlockName
from elmo_serve.processes.channel import Parent
from elmo_serve.processes.child import ChildProcess
from elmo_serve.processes.clock import EVENT_LOOP_CLOCK, Clock
from elmo_serve.processes.slot import Child, ChildOptions, LostTasks, Slot, SlotListener, Started
from elmo_serve.processes.turns import Turns

if TYPE_CHECKING:  # the processes import this module and keep no metrics
    from elmo_serve.metrics import Metrics

_LEAST_PROCESSES, _MOST_PROCESSES = 2, 8
"""Processes of the pool; each of them holds 45 to 60 MB. Fewer than two would leave none for quick
calls."""

_CALLS_AHEAD = 2
"""Quick calls given to one process: one runs and one waits. More would wait behind a slow one."""

_CALL_SECONDS = 30.0
"""Seconds of a call after which its process counts as hung: more than ten times the longest call on
two busy cores."""

_RETRY_SECONDS = 5
"""`Retry-After` of a request whose call was hung."""

_ATTEMPTS = 2
"""Processes that may be lost over one call before its request is refused. An exception of a
function loses none."""


class HelperError(Exception):
    """A function failed in a helper process with an unexpected exception; the text is its trace."""


@dataclass(frozen=True, slots=True)
class Order:
    """The message that gives a process its next function; a `Block` among `arguments` is named."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def work(parent: Parent) -> None:
    """Run functions in a process until the server closes the channel.

    A function that fails, or whose result cannot be sent, ends its call with an exception: the
    process goes on.
    """
    parent.send(Started())
    while True:
        order: Order = parent.receive()
        arguments = (
            parent.memory(each) if isinstance(each, BlockName) else each for each in order.arguments
        )
        try:
            parent.send(order.function(*arguments))
        except BaseException as error:  # a panic of a library in Rust is no `Exception`
            parent.send(_sendable(error))


def _sendable(error: BaseException) -> Exception:
    """Return an exception that the server can unpickle; it knows these, and logs all others."""
    if isinstance(error, (ServiceError, MemoryError, OSError)):
        return error
    return HelperError("".join(traceback.format_exception(error)).rstrip())


@dataclass(slots=True, eq=False)
class Call:
    """A call and the future of its result.

    `output` is the size in bytes of the block that the function writes to; 0 for a function that
    only returns its result. `losses` counts the processes that were lost over the call.
    """

    order: Order
    client: str
    is_slow: bool
    output: int
    future: asyncio.Future[Any] = field(init=False)
    losses: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.future = asyncio.get_running_loop().create_future()

    def refuse(self, reason: str, retry_after: int = 1) -> None:
        """Fail the request for now."""
        if not self.future.done():
            refusal = Unavailable(f"The request failed for now: {reason}.", retry_after=retry_after)
            self.future.set_exception(refusal)


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """A call that a process was given.

    The process may write to `output`, a block of this attempt alone, until it has answered or has
    ended: also after the request has ended, or the call was given to another process. The slot
    keeps the attempt until then.
    """

    call: Call
    order: Order
    output: Block | None

    @classmethod
    def of(cls, call: Call, arena: Arena) -> Self:
        """Return an attempt with a new block. Raises Unavailable where memory is short."""
        if not call.output:
            return cls(call, call.order, None)
        block = arena.acquire(call.output)
        return cls(call, replace(call.order, arguments=(block, *call.order.arguments)), block)

    def finish(self, message: object) -> None:
        """Pass the result, or the error, to the caller."""
        future = self.call.future
        if future.done():
            return
        if isinstance(message, Exception):
            future.set_exception(message)
        elif self.output is not None:
            future.set_result((self.output.array.data, message))
        else:
            future.set_result(message)


class HelperPool(SlotListener[Attempt]):
    """The helper processes, and the calls that wait for one of them.

    A slow call, such as a body that is parsed, is given to an idle process, which gets nothing else
    meanwhile. One process takes no slow calls, so that quick ones never wait for one. Each of the
    two kinds is taken in turn by client. While slow calls wait, the other processes take no further
    quick ones: each of them is idle soon.
    """

    def __init__(
        self,
        arena: Arena,
        metrics: Metrics,
        cores: int,
        clock: Clock = EVENT_LOOP_CLOCK,
        make: Callable[[], Child] | None = None,
    ) -> None:
        self.arena = arena
        self._failures = metrics.failures
        self._slow, self._quick = Turns[Call](), Turns[Call]()
        make = make or partial(ChildProcess, "elmo-helper", work, (), arena)
        options = ChildOptions("helper process", "it is starting", lambda _: make(), _CALL_SECONDS)
        # Half of the cores: few clients use these processes, and the network uses all cores.
        count = max(_LEAST_PROCESSES, min(_MOST_PROCESSES, cores // 2))
        self._slots = [Slot[Attempt](options, self, clock) for _ in range(count)]

    @property
    def fault(self) -> str | None:
        """Why no process can be started; None while one may be."""
        failed = [slot for slot in self._slots if slot.failed_starts]
        return failed[0].start_failure if len(failed) == len(self._slots) else None

    def start(self) -> None:
        """Spawn the processes."""
        for slot in self._slots:
            slot.start()

    async def stop(self) -> None:
        """End the processes."""
        await asyncio.gather(*(slot.stop() for slot in self._slots))

    def run(
        self,
        function: Callable[..., Any],
        *arguments: object,
        client: str,
        is_slow: bool = False,
        output: int = 0,
    ) -> asyncio.Future[Any]:
        """Queue `function(*arguments)`, or `function(memory, *arguments)` with `output`.

        The function is one of a module, and the arguments can be pickled. A `Block` among them
        reaches the function as bytes and stays in use until the process has done with it. With
        `output` the function writes to `memory`, which has that size in bytes; the result is a view
        of it, and the result of the function.

        When the future is cancelled, the call is not begun. The future raises:

            ServiceError, MemoryError, OSError: the one that the function raises.
            HelperError: it raises another exception, or its result cannot be pickled.
            Unavailable: the call took too long, two processes were lost over it, none can be
                started, or memory is short.
        """
        call = Call(Order(function, arguments), client, is_slow, output)
        self._queue_of(call).add(client, call)
        self._dispatch()
        return call.future

    def on_message(self, slot: Slot[Attempt], message: object) -> None:
        """Handle a message of a process: `Started`, or the result or error of its call."""
        if isinstance(message, Started):
            slot.mark_ready()
        else:
            slot.finish().finish(message)
        self._dispatch()

    def on_lost(self, slot: Slot[Attempt], lost: LostTasks[Attempt]) -> None:
        """Count the loss of a process, and queue its calls again.

        A call that took too long is refused: it would take as long again. One that a process ended
        over may have killed it, and is tried once more at most. Nothing waits while no process that
        could take it can be started. A hung call that nobody waits for is no failure.
        """
        calls = [attempt.call for attempt in lost.waiting]
        is_dropped = False
        if lost.running is not None:
            running = lost.running.call
            running.losses += 1
            is_dropped = lost.was_hung and running.future.cancelled()
            if lost.was_hung:
                running.refuse(lost.reason, _RETRY_SECONDS)
            elif running.losses == _ATTEMPTS:
                running.refuse(lost.reason)
            else:
                calls.insert(0, running)
        if not is_dropped:
            self._failures.labels("helper_hung" if lost.was_hung else "helper_lost").inc()
        for call in reversed(calls):
            self._queue_of(call).add_first(call.client, call)
        for queue, slots in ((self._slow, self._slots[1:]), (self._quick, self._slots)):
            if all(each.failed_starts for each in slots):
                while (waiting := queue.next()) is not None:
                    waiting.refuse(lost.reason)
        self._dispatch()

    def _queue_of(self, call: Call) -> Turns[Call]:
        return self._slow if call.is_slow else self._quick

    def _dispatch(self) -> None:
        """Give waiting calls to processes: slow ones to idle ones, quick ones to the least busy."""
        for slot in self._slots[1:]:
            if slot.is_ready and not slot.task_count:
                self._give(slot, self._slow)
        slots = self._slots[:1] if self._slow else self._slots
        ready = [slot for slot in slots if slot.is_ready and not _is_slow(slot)]
        while ready:
            slot = min(ready, key=lambda slot: slot.task_count)
            if slot.task_count >= _CALLS_AHEAD or not self._give(slot, self._quick):
                return

    def _give(self, slot: Slot[Attempt], queue: Turns[Call]) -> bool:
        """Give a process the next call of a queue that is still wanted; tell whether there is one.

        Refuses calls for whose results there is no memory.
        """
        while (call := queue.next()) is not None:
            if call.future.done():
                continue
            try:
                attempt = Attempt.of(call, self.arena)
            except Unavailable as error:
                call.future.set_exception(error)
                continue
            slot.assign(attempt)
            slot.child.send(attempt.order)
            return True
        return False


def _is_slow(slot: Slot[Attempt]) -> bool:
    return slot.running is not None and slot.running.call.is_slow
