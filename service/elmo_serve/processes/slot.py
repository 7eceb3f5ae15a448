"""A slot for one child process: it is started, watched, killed when it hangs, and replaced."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Literal, Protocol, TypeVar

from elmo_serve.processes.clock import EVENT_LOOP_CLOCK, Clock, Timer
from elmo_serve.processes.heartbeat import LOADING_SECONDS, SILENT_SECONDS, Alive
from elmo_serve.processes.limits import SizeLimit, Watchdog

_log = logging.getLogger("elmo_serve.processes")

FIRST_DELAY = 0.1
"""Seconds from the loss of a child to the start of the next; doubled with every loss in a row."""

LONGEST_DELAY = 10.0
"""Seconds of delay at most, until the slot gives up.

A child that dies again and again takes processor time from the others each time it starts: a larger
value protects them, a smaller one brings its capacity back sooner.
"""

RECOVERED_SECONDS = 60.0
"""A child that was ready for so long has recovered: its loss is the first in a row."""

MAX_FAILED_STARTS = 10
"""Starts that fail in a row before a slot reports that it has given up: the server is then not
healthy. It starts the child again all the same, after `ChildOptions.given_up_delay`."""

REAP_SECONDS = 30.0
"""Seconds after which a killed child that has not ended is replaced all the same.

SIGKILL does not end a process that waits inside a driver (state D) before that returns. A larger
value is a longer outage, a smaller one starts the next child on a device that is still taken.
"""

State = Literal["loading", "ready", "down"]

TaskT = TypeVar("TaskT")


@dataclass(frozen=True, slots=True)
class Started:
    """The first message of a child: it can take tasks."""


class Child(Protocol):
    """A process that can be supervised: a `ChildProcess`. Equal to itself alone."""

    def start(self, on_message: Callable[[Any], None], on_exit: Callable[[str], None], /) -> None:
        """Start it. `on_message` gets each of its messages, `on_exit` the reason of its end, once.

        Both are called on the event loop, and nothing after `on_exit`.
        """

    def send(self, message: Any, /) -> None:
        """Queue a message behind those sent before."""

    def kill(self) -> None:
        """Send it SIGKILL; `on_exit` follows once it has ended, which may be never."""

    async def stop(self) -> None:
        """Let it end by itself when its work is done, and wait for that."""


@dataclass(frozen=True, slots=True)
class LostTasks(Generic[TaskT]):
    """The tasks of a child that has ended, or was killed as hung.

    `running` is the task it was working on; `waiting` are those that it had not begun, and one that
    was interrupted.
    """

    reason: str
    was_ready: bool
    was_hung: bool
    running: TaskT | None
    waiting: Sequence[TaskT]


class SlotListener(Protocol[TaskT]):
    """Is called when something happens to the child in a slot: a pool of such slots.

    A slot has finished its own bookkeeping before it calls, so the listener may give it the next
    task from within any of these methods.
    """

    def on_message(self, slot: Slot[TaskT], message: Any) -> None:
        """Handle a message of the child."""

    def on_lost(self, slot: Slot[TaskT], lost: LostTasks[TaskT]) -> None:
        """Handle the loss of the child. The next one is scheduled."""

    def on_restart(self, slot: Slot[TaskT]) -> None:
        """Handle that the next child is about to start; by default its loss is all that counts."""
        return


@dataclass(frozen=True, slots=True)
class ChildOptions:
    """How to make a child, and how to supervise it.

    `name` is for log lines and reasons, `labels` are added to its log lines; `loading` is the
    reason why a child that starts is not ready. `make` is given the message with which an earlier
    child was ready, None for the first one. A child with a task may be silent for `silent_seconds`,
    or for as long as it has asked for. `largest_size` is the most that a task may have, 0 where
    there is no limit. `given_up_delay` is the pause in seconds before each start after
    `MAX_FAILED_STARTS` have failed in a row.
    """

    name: str
    loading: str
    make: Callable[[Any], Child]
    silent_seconds: float = SILENT_SECONDS
    largest_size: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    given_up_delay: float = LONGEST_DELAY


@dataclass(slots=True, eq=False)
class _Assigned(Generic[TaskT]):
    """A task of a slot; `seconds` are those that it ran before it was interrupted."""

    task: TaskT
    size: int
    is_urgent: bool
    seconds: float = 0.0


class Slot(Generic[TaskT]):
    """A place for one child at a time, and the tasks that were given to it.

    The child works on one task at a time, in the order of `assign`; an urgent one interrupts the
    one that runs. A child that is silent for too long while it has a task, or starts, is killed,
    and one is replaced whenever it ends. The tasks of a killed child are kept until it has ended:
    it may still write to the shared memory that they hold.

    Attributes:
        state: whether the child can work on tasks; `reason` says why not.
        failed_starts: starts that failed in a row; `start_failure` says why the last one did.
        seconds: of the last task, its way to the child and back included.
        seconds_per_unit_when_full: pace of the last task that was about full; 0 if unknown.
    """

    def __init__(
        self,
        options: ChildOptions,
        listener: SlotListener[TaskT],
        clock: Clock = EVENT_LOOP_CLOCK,
    ) -> None:
        self.state: State = "loading"
        self.reason = options.loading
        self.failed_starts = 0
        self.start_failure = ""
        self.seconds = 0.0
        self.seconds_per_unit_when_full = 0.0
        self.labels = options.labels
        self.child = options.make(None)
        self._options = options
        self._listener = listener
        self._clock = clock
        self._watchdog = Watchdog(self._kill_hung, clock)
        self._tasks: deque[_Assigned[TaskT]] = deque()
        self._limit = SizeLimit(options.largest_size)
        self._began = 0.0  # when the first of the tasks began to run, or to run again
        self._pause = 0.0  # seconds of the last interruption of it
        self._report: Any = None  # with which a child was ready
        self._ready_since = 0.0
        self._losses = 0  # in a row
        self._unreaped: dict[Child, Sequence[TaskT]] = {}  # tasks of killed children
        self._restart: Timer | None = None
        self._is_stopping = False

    @property
    def is_ready(self) -> bool:
        """Tell whether the child can work on tasks."""
        return self.state == "ready"

    @property
    def has_given_up(self) -> bool:
        """Tell whether many starts in a row have failed."""
        return self.failed_starts >= MAX_FAILED_STARTS

    # Tasks

    @property
    def budget(self) -> int:
        """The largest size that a task may have; 0 where there is no limit."""
        return self._limit.size

    @property
    def task_count(self) -> int:
        """Tasks that run or wait at the child."""
        return len(self._tasks)

    @property
    def running(self) -> TaskT | None:
        """The task that runs, if there is one."""
        return self._tasks[0].task if self._tasks else None

    @property
    def tasks(self) -> Sequence[TaskT]:
        """The tasks that run or wait at the child."""
        return [each.task for each in self._tasks]

    def progress(self) -> Iterator[tuple[TaskT, float]]:
        """Yield each task, with the seconds for which it has run so far."""
        for each in self._tasks:
            is_running = each is self._tasks[0]
            since = self._clock.now() - self._began if is_running else 0.0
            yield each.task, each.seconds + since

    @property
    def interruptible_in(self) -> float:
        """Return the seconds until the task that runs has run as long as its last interruption."""
        return max(0.0, self._began + self._pause - self._clock.now())

    def assign(self, task: TaskT, size: int = 1, *, is_urgent: bool = False) -> None:
        """Note that the child was given a task of so many units.

        An urgent one interrupts the task that runs. The child may be silent for as long as before:
        the part of that task on which it works may be a long one.
        """
        now, added = self._clock.now(), _Assigned(task, size, is_urgent)
        if not self._tasks:
            self._watchdog.allow(self._options.silent_seconds)
        if is_urgent and self._tasks:
            self._tasks[0].seconds += now - self._began
            self._tasks.appendleft(added)
        else:
            self._tasks.append(added)
        if self._tasks[0] is added:
            self._began, self._pause = now, 0.0

    def finish(self, task: TaskT | None = None) -> TaskT:
        """Note that the first task, or `task`, is done, and return it.

        A task may be done before the child has read of the one that was to interrupt it.
        """
        done = next(each for each in self._tasks if task is None or each.task is task)
        now, self.seconds = self._clock.now(), done.seconds
        if done is self._tasks[0]:
            self.seconds += now - self._began
            self._began, self._pause = now, self.seconds if done.is_urgent else 0.0
        self._tasks.remove(done)
        if 2 * done.size >= max(1, self.budget):
            self.seconds_per_unit_when_full = self.seconds / done.size
        if self._tasks:
            self._watchdog.allow(self._options.silent_seconds)
        else:
            self._watchdog.cancel()
        return done.task

    def adjust_budget(self, size: int, *, was_memory_short: bool) -> bool:
        """Learn the budget from a task of this size; return whether the budget has changed."""
        before = self.budget
        if was_memory_short:
            self._limit.limit(size // 2)
        else:
            self._limit.grow(size)
        return self.budget != before

    # The child

    def start(self, report: Any = None) -> None:
        """Start the child; `report` is the message with which another child of the pool was ready.

        The child is made with it, and needs not measure again what that one has found.
        """
        if self._is_stopping:
            return
        if report is not None:
            self._report, self.child = report, self._options.make(report)
        self.state, self.reason = "loading", self._options.loading
        self._watchdog.allow(LOADING_SECONDS)
        child = self.child
        child.start(partial(self._on_message, child), partial(self._on_exit, child))

    def mark_ready(
        self, report: Any = None, seconds_per_unit: float = 0.0, largest_size: int = 0
    ) -> None:
        """Note that the child has started.

        `report` is given to the maker of the next child. Its warm-up took `seconds_per_unit`, and
        found that a task may have `largest_size`; 0 where it has not measured that.
        """
        self.state, self.reason = "ready", ""
        self.failed_starts = 0
        self._report = report
        self._ready_since = self._clock.now()
        self._watchdog.cancel()
        if largest_size:
            self._limit.limit(largest_size)
        self.seconds_per_unit_when_full = self.seconds_per_unit_when_full or seconds_per_unit

    def retry_rarely(self) -> None:
        """Count as given up: from now on `given_up_delay` lies before each start."""
        self.failed_starts = max(self.failed_starts, MAX_FAILED_STARTS)
        if self._restart is not None:
            self._restart_in(self._delay)

    def mark_failed(self, reason: str) -> None:
        """Note why the child cannot start. It ends by itself."""
        self.reason = reason

    def kill(self) -> None:
        """End the child now, without a replacement."""
        self._is_stopping = True
        self._watchdog.cancel()
        self.child.kill()

    async def stop(self) -> None:
        """Let the child end, and start no other."""
        self._is_stopping = True
        self._watchdog.cancel()
        if self._restart is not None:
            self._restart.cancel()
            return
        if self.state == "loading":
            self.child.kill()
        await self.child.stop()

    def _on_message(self, child: Child, message: Any) -> None:
        if child is not self.child or self.state == "down":
            return
        if not isinstance(message, Alive):
            self._listener.on_message(self, message)
        elif self._tasks or self.state == "loading":
            self._watchdog.allow(message.seconds)

    def _kill_hung(self, seconds: float) -> None:
        """Kill the child and give its tasks back; its end may come later, or never."""
        self._log(logging.ERROR, "hangs", silent_seconds=seconds)
        self._unreaped[self.child] = self.tasks
        self.child.kill()
        self._lose(f"sent no message for {seconds:g} s and was killed", was_hung=True)

    def _on_exit(self, child: Child, reason: str) -> None:
        was_hung = self._unreaped.pop(child, None) is not None
        if child is not self.child or self._is_stopping:
            return
        if not was_hung:
            self._lose(reason)
        elif self.state == "down":
            self._restart_in(self._delay)

    def _lose(self, exit_reason: str, *, was_hung: bool = False) -> None:
        """Schedule a replacement, and give the tasks back."""
        self._watchdog.cancel()
        lost = self._lost_tasks(exit_reason, was_hung)
        self._log(logging.ERROR, "lost", reason=lost.reason)
        if lost.was_ready and self._clock.now() - self._ready_since > RECOVERED_SECONDS:
            self._losses = 0
        self._losses += 1
        if not lost.was_ready:
            self.failed_starts += 1
            self.start_failure = lost.reason
        self.state, self.reason = "down", lost.reason
        self._tasks.clear()
        is_alive = self.child in self._unreaped
        self._restart_in(max(self._delay, REAP_SECONDS) if is_alive else self._delay)
        self._listener.on_lost(self, lost)

    def _lost_tasks(self, exit_reason: str, was_hung: bool) -> LostTasks[TaskT]:
        was_ready = self.state == "ready"
        if was_ready or self.reason == self._options.loading:
            reason = f"the {self._options.name} {exit_reason}"
        else:
            reason = self.reason  # given by the child itself
        tasks = list(self.tasks)
        running = tasks.pop(0) if was_ready and tasks else None
        return LostTasks(reason, was_ready, was_hung, running, tasks)

    @property
    def _delay(self) -> float:
        """The seconds from the end of the child to the start of the next."""
        if self.has_given_up:
            return self._options.given_up_delay
        return min(FIRST_DELAY * 2.0 ** min(self._losses - 1, 10), LONGEST_DELAY)

    def _restart_in(self, seconds: float) -> None:
        if self._restart is not None:
            self._restart.cancel()
        self._restart = self._clock.call_later(seconds, self._replace)

    def _replace(self) -> None:
        self._restart = None
        self.child = self._options.make(self._report)
        self._listener.on_restart(self)
        self.start()

    def _log(self, level: int, what: str, **extra: object) -> None:
        _log.log(level, f"{self._options.name} {what}", extra={**self._options.labels, **extra})
