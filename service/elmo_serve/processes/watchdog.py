"""The tasks of a child process: their order and size, and timeouts learned from their latency."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

_FACTOR = 10.0
"""A task times out after so many times its expected seconds.

A larger value finds a hung process later, a smaller one kills processes on a busy machine.
`python -m benchmarks.faults` prints after how long a hung worker is found.
"""

_RECENT_TASKS = 32
"""Tasks that the estimate is made of; one that stood still with its machine raises it so long."""

_LATE = 0.1
"""A timer that is later than this part of its time was itself suspended with its process."""

TaskT = TypeVar("TaskT")

_PROBATION_TASKS = 32
"""Large tasks without a failure before a larger one is tried.

A larger value grows back later, a smaller one runs out of memory more often.
"""

_GROWTH = 8
"""The budget grows by one part in so many at a time."""


class Timer(Protocol):
    """A call that is to come."""

    def cancel(self) -> None:
        """Prevent the call."""


class Clock(Protocol):
    """A clock that tests can replace."""

    def now(self) -> float:
        """Return the seconds since some fixed moment."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call a function once, so many seconds from now."""


class EventLoopClock:
    """The real clock. Calls are made by the event loop that runs."""

    def now(self) -> float:
        """Return the monotonic time; uvloop's own has steps of a millisecond."""
        return time.monotonic()

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Schedule a call in a context of its own: its log lines belong to no request."""
        return asyncio.get_running_loop().call_later(seconds, call, context=contextvars.Context())


EVENT_LOOP_CLOCK = EventLoopClock()


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds without a message after which a child process counts as hung.

    `load` holds while it starts, `first_batch` for a task before any latency is known, and `batch`
    is the shortest timeout of a task afterwards.
    """

    load: float = 600.0
    first_batch: float = 60.0
    batch: float = 5.0


class LatencyEstimate:
    """An upper bound of the seconds that a task takes, from the slowest of the recent ones.

    Sizes are in any unit, tokens or bytes. A task below `minimum_size` is bound by latency and
    counts as that large.
    """

    def __init__(self, timeouts: Timeouts, minimum_size: int) -> None:
        self._timeouts = timeouts
        self._minimum_size = minimum_size
        self._calibrated = 0.0
        self._seconds_per_step = 0.0
        self._recent: deque[float] = deque(maxlen=_RECENT_TASKS)  # seconds a unit

    def calibrate(self, seconds_per_unit: float, seconds_per_step: float = 0.0) -> None:
        """Take the pace of a warm-up as a lower bound of the estimate."""
        self._calibrated, self._seconds_per_step = seconds_per_unit, seconds_per_step

    def learn(self, size: int, seconds: float) -> None:
        """Count a task that is done."""
        self._recent.append(seconds / max(size, self._minimum_size))

    def timeout(self, size: int, steps: int = 0) -> float:
        """Return the seconds after which a task of this size and so many steps counts as hung."""
        if not self._recent and not self._calibrated:
            return self._timeouts.first_batch
        slowest = max(self._calibrated, *self._recent, 0.0)
        expected = max(slowest * max(size, self._minimum_size), self._seconds_per_step * steps)
        return max(self._timeouts.batch, _FACTOR * expected)


class Watchdog:
    """Calls `on_timeout` with the seconds waited, unless the wait is ended or renewed in time.

    When this process or its machine was suspended, messages of the child lie unread and the child
    may have been suspended as well. Then the timer fires late, and the child gets its time again.
    """

    def __init__(self, on_timeout: Callable[[float], None], clock: Clock) -> None:
        self._on_timeout = on_timeout
        self._clock = clock
        self._timer: Timer | None = None

    def wait(self, seconds: float) -> None:
        """Allow so many seconds from now on."""
        self.cancel()
        due = self._clock.now() + seconds
        self._timer = self._clock.call_later(seconds, lambda: self._fire(due, seconds))

    def cancel(self) -> None:
        """Wait for nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self, due: float, seconds: float) -> None:
        self._timer = None
        if self._clock.now() - due > _LATE * seconds:
            self.wait(seconds)
        else:
            self._on_timeout(seconds)


class BatchBudget:
    """The size that a task may have, at most `largest`; smaller after one ran out of memory."""

    def __init__(self, largest: int) -> None:
        self.size = largest
        self._largest = largest
        self._large_tasks = 0  # in a row, without a failure

    def limit(self, size: int) -> None:
        """Allow at most so much for now: half of a task that ran out of memory, or a warm-up's.

        Not half of the budget: a task that was cut before the last halving tells nothing new.
        """
        self.size = max(1, min(self.size, size))
        self._large_tasks = 0

    def grow(self, size: int) -> None:
        """Count a task that had enough memory; after many large ones allow a little more."""
        if self.size == self._largest or 2 * size <= self.size:
            return
        self._large_tasks += 1
        if self._large_tasks >= _PROBATION_TASKS:
            self._large_tasks = 0
            self.size = min(self._largest, self.size + self.size // _GROWTH + 1)


@dataclass(slots=True, eq=False)
class _Assigned(Generic[TaskT]):
    """A task of a slot; `seconds` are those that it ran before it was interrupted."""

    task: TaskT
    size: int
    steps: int
    is_urgent: bool
    seconds: float = 0.0


class Workload(Generic[TaskT]):
    """The tasks that were given to a child, and what they teach of its speed and memory.

    The child works on one task at a time, in the order of `assign`; an urgent one interrupts the
    one that runs. `on_timeout` is called with the seconds that passed in vain.
    """

    def __init__(
        self,
        timeouts: Timeouts,
        minimum_size: int,
        largest_size: int,
        on_timeout: Callable[[float], None],
        clock: Clock,
    ) -> None:
        self.seconds = 0.0  # of the last task, its way to the child and back included
        self.full_pace = 0.0  # seconds a unit of the last task that was about full; 0 if unknown
        self._timeouts = timeouts
        self._clock = clock
        self._budget = BatchBudget(largest_size)
        self._tasks: deque[_Assigned[TaskT]] = deque()
        self._watchdog = Watchdog(on_timeout, clock)
        self._latency = LatencyEstimate(timeouts, minimum_size)
        self._began = 0.0  # when the first of the tasks began to run, or to run again
        self._pause = 0.0  # seconds of the last interruption of it

    @property
    def budget(self) -> int:
        """The largest size that a task may have; 0 where there is no limit."""
        return self._budget.size

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

    @property
    def interruptible_in(self) -> float:
        """Return the seconds until the task that runs has run as long as its last interruption."""
        return max(0.0, self._began + self._pause - self._clock.now())

    def assign(self, task: TaskT, size: int, steps: int = 0, *, is_urgent: bool = False) -> None:
        """Note that the child was given a task of so many units and steps.

        An urgent one interrupts the task that runs.
        """
        now, added = self._clock.now(), _Assigned(task, size, steps, is_urgent)
        if is_urgent and self._tasks:
            self._tasks[0].seconds += now - self._began
            self._tasks.appendleft(added)
        else:
            self._tasks.append(added)
        if self._tasks[0] is added:
            self._began, self._pause = now, 0.0
            self.restart_timeout()

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
            self.full_pace = self.seconds / done.size
        self._latency.learn(done.size, self.seconds)
        self.restart_timeout()
        return done.task

    def adjust_budget(self, size: int, *, was_memory_short: bool) -> bool:
        """Learn the budget from a task of this size; return whether the budget has changed."""
        before = self.budget
        if was_memory_short:
            self._budget.limit(size // 2)
        else:
            self._budget.grow(size)
        return self.budget != before

    def restart_timeout(self) -> None:
        """Give the task that runs its full time from now on."""
        if self._tasks:
            self._watchdog.wait(self._latency.timeout(self._tasks[0].size, self._tasks[0].steps))
        else:
            self._watchdog.cancel()

    def shorten_timeout(self) -> None:
        """Give the task that runs the shortest timeout of a task from now on."""
        self._watchdog.wait(self._timeouts.batch)

    def _calibrate(self, seconds_per_unit: float, seconds_per_step: float, size: int) -> None:
        """Use the pace and the largest size that a warm-up has found; 0 is none."""
        if size:
            self._budget.limit(size)
        self.full_pace = self.full_pace or seconds_per_unit
        if seconds_per_unit:
            self._latency.calibrate(seconds_per_unit, seconds_per_step)
