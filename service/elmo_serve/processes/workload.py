"""The tasks of a child process: their order, the time that each may take, and its size."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from elmo_serve.processes.watchdog import Clock, LatencyEstimate, Timeouts, Watchdog

TaskT = TypeVar("TaskT")

_PROBATION_TASKS = 32
"""Large tasks without a failure before a larger one is tried.

A larger value grows back later, a smaller one runs out of memory more often.
"""

_GROWTH = 8
"""The budget grows by one part in so many at a time."""


class BatchBudget:
    """The size that a task may have, at most `largest`; smaller after one ran out of memory."""

    def __init__(self, largest: int) -> None:
        self.size = largest
        self._largest = largest
        self._large_tasks = 0  # in a row, without a failure

    def shrink(self, failed_size: int) -> None:
        """Allow half of a task that ran out of memory.

        Not half of the budget: a task that was cut before the last halving tells nothing new.
        """
        self.size = max(1, min(self.size, failed_size // 2))
        self._large_tasks = 0

    def limit(self, size: int) -> None:
        """Allow at most so much for now, as if a larger task had run out of memory."""
        if size < self.size:
            self.size = size
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
            self._budget.shrink(size)
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
