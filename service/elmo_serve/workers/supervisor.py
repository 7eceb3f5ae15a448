"""The supervisor of child processes: starts, watches, kills and replaces one child a slot."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

from elmo_serve.workers.clock import EVENT_LOOP_CLOCK, Clock, Timer
from elmo_serve.workers.watchdog import LatencyEstimate, Timeouts, Watchdog

_log = logging.getLogger("elmo_serve.workers")

FIRST_DELAY = 0.1
"""Seconds from the loss of a child to the start of the next; doubled with every loss in a row."""

LONGEST_DELAY = 10.0
"""Seconds of delay at most while another child of the pool is ready.

A child that dies again and again takes processor time from the others each time it starts: a larger
value protects them, a smaller one brings its capacity back sooner.
"""

LONGEST_OUTAGE_DELAY = 1.0
"""Seconds of delay at most while no child of the pool is ready: no request can be answered then."""

SOUND_SECONDS = 60.0
"""A child that was ready for so long has recovered: its loss is the first in a row."""

HOPELESS_STARTS = 10
"""Starts that fail in a row before a slot counts as hopeless. It is started again all the same."""

State = Literal["loading", "ready", "down"]

MessageT_co = TypeVar("MessageT_co", covariant=True)
MessageT_contra = TypeVar("MessageT_contra", contravariant=True)
MessageT = TypeVar("MessageT")
TaskT = TypeVar("TaskT")
ChildT = TypeVar("ChildT", bound="Child[Any]")


class Child(Protocol[MessageT_co]):
    """A process or a thread that can be supervised."""

    def start(
        self, on_message: Callable[[MessageT_co], None], on_exit: Callable[[str], None], /
    ) -> None:
        """Start it. `on_message` gets each of its messages, `on_exit` the reason of its end, once.

        Both are called on the event loop, and nothing after `on_exit`.
        """

    def kill(self) -> None:
        """End it now, whatever it does; `on_exit` follows."""

    async def stop(self) -> None:
        """Let it end by itself when its work is done, and wait for that."""


@dataclass(frozen=True, slots=True)
class Loss(Generic[TaskT]):
    """The end of a child that was not asked to end.

    `running` is the task it was working on, `waiting` are those it had not begun.
    """

    reason: str
    was_ready: bool
    was_hung: bool
    running: TaskT | None
    waiting: Sequence[TaskT]


class SlotListener(Protocol[MessageT_contra, TaskT]):
    """Is called when something happens to the child in a slot: a pool.

    A slot has finished its own bookkeeping before it calls.
    """

    def on_message(self, message: MessageT_contra) -> None:
        """Handle a message of the child."""

    def on_lost(self, loss: Loss[TaskT]) -> None:
        """Handle the end of the child. The next one is scheduled."""

    def on_restart(self) -> None:
        """Handle that the next child is about to start."""


@dataclass(frozen=True, slots=True)
class ChildSpec(Generic[ChildT]):
    """How to make a child, and how to supervise it.

    `name` is for log lines and reasons, `labels` are added to its log lines; `loading` is the
    reason why a child that starts is not ready. A task is given time for `minimum_size` units at
    least.
    """

    name: str
    loading: str
    make: Callable[[], ChildT]
    timeouts: Timeouts
    minimum_size: int
    labels: Mapping[str, str] = field(default_factory=dict)


class ChildSlot(Generic[ChildT, MessageT, TaskT]):
    """A place for one child at a time, and the tasks that were given to it.

    The child works on one task at a time, in the order of `assign`. It is killed when a task, or
    its start, takes too long, and replaced whenever it ends. `peers` are all slots of the pool:
    while none of them is ready, replacements start without a long delay.
    """

    def __init__(
        self,
        spec: ChildSpec[ChildT],
        listener: SlotListener[MessageT, TaskT],
        peers: list[ChildSlot[ChildT, MessageT, TaskT]],
        clock: Clock = EVENT_LOOP_CLOCK,
    ) -> None:
        self.state: State = "loading"
        self.reason = spec.loading  # why it is not ready
        self.failed_starts = 0  # in a row
        self.start_failure = ""  # why the last start failed
        self.child = spec.make()
        self._spec = spec
        self._listener = listener
        self._peers = peers
        self._clock = clock
        self._tasks: deque[tuple[TaskT, int]] = deque()
        self._watchdog = Watchdog(self._kill_hung, clock)
        self._latency = LatencyEstimate(spec.timeouts, spec.minimum_size)
        self._began = 0.0  # when the first of the tasks began to run
        self._ready_since = 0.0
        self._losses = 0  # in a row
        self._silence = 0.0  # seconds after which the child was killed as hung
        self._restart: Timer | None = None
        self._restart_at = 0.0
        self._is_stopping = False
        peers.append(self)

    @property
    def is_ready(self) -> bool:
        """Tell whether the child can work on tasks."""
        return self.state == "ready"

    @property
    def is_hopeless(self) -> bool:
        """Tell whether many starts in a row have failed."""
        return self.failed_starts >= HOPELESS_STARTS

    @property
    def task_count(self) -> int:
        """Tasks that run or wait at the child."""
        return len(self._tasks)

    @property
    def running(self) -> TaskT | None:
        """The task that runs, if there is one."""
        return self._tasks[0][0] if self._tasks else None

    @property
    def running_seconds(self) -> float:
        """Seconds since the task that runs began."""
        return self._clock.now() - self._began

    def start(self) -> None:
        """Start the child."""
        self.state, self.reason = "loading", self._spec.loading
        self._watchdog.wait(self._spec.timeouts.load)
        child = self.child
        child.start(
            lambda message: self._listener.on_message(message) if child is self.child else None,
            lambda reason: self._on_exit(reason) if child is self.child else None,
        )

    def mark_ready(self, seconds_per_unit: float = 0.0) -> None:
        """Note that the child has started; its warm-up took so long per unit of size, if known."""
        self.state, self.reason = "ready", ""
        self.failed_starts = 0
        self._ready_since = self._clock.now()
        self._watchdog.cancel()
        if seconds_per_unit:
            self._latency.calibrate(seconds_per_unit)

    def mark_failed(self, reason: str) -> None:
        """Note why the child cannot start. It ends by itself."""
        self.reason = reason

    def assign(self, task: TaskT, size: int) -> None:
        """Note that the child was given a task of so many units."""
        self._tasks.append((task, size))
        if len(self._tasks) == 1:
            self._began = self._clock.now()
            self.renew()

    def finish(self) -> tuple[TaskT, float]:
        """Note that the first task is done; return it and the seconds it took."""
        task, size = self._tasks.popleft()
        now = self._clock.now()
        seconds, self._began = now - self._began, now
        self._latency.learn(size, seconds)
        self.renew()
        return task, seconds

    def renew(self) -> None:
        """Give the task that runs its full time from now on."""
        if self._tasks:
            self._watchdog.wait(self._latency.timeout(self._tasks[0][1]))
        else:
            self._watchdog.cancel()

    def hurry(self) -> None:
        """Give the task that runs the shortest timeout of a task from now on."""
        self._watchdog.wait(self._spec.timeouts.batch)

    def kill(self) -> None:
        """End the child now, without a replacement."""
        self._is_stopping = True
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

    def _kill_hung(self, seconds: float) -> None:
        self._log(logging.ERROR, "hangs", silent_seconds=round(seconds, 1))
        self._silence = seconds
        self.child.kill()

    def _on_exit(self, reason: str) -> None:
        self._watchdog.cancel()
        if self._is_stopping:
            return
        loss = self._loss(reason)
        self._log(logging.ERROR, "lost", reason=loss.reason)
        if loss.was_ready and self._clock.now() - self._ready_since > SOUND_SECONDS:
            self._losses = 0
        self._losses += 1
        if not loss.was_ready:
            self.failed_starts += 1
            self.start_failure = loss.reason
        self.state, self.reason = "down", loss.reason
        self._tasks.clear()
        self._silence = 0.0
        self._schedule_restart(min(FIRST_DELAY * 2 ** min(self._losses - 1, 10), LONGEST_DELAY))
        for peer in self._peers:
            peer.limit_outage()
        self._listener.on_lost(loss)

    def _loss(self, exit_reason: str) -> Loss[TaskT]:
        was_ready = self.state == "ready"
        if was_ready or self.reason == self._spec.loading:
            reason = f"the {self._spec.name} {exit_reason}"
            if self._silence:
                reason += f" after {self._silence:.1f} s without a message"
        else:
            reason = self.reason  # given by the child itself
        tasks = [task for task, _ in self._tasks]
        running = tasks.pop(0) if was_ready and tasks else None
        return Loss(reason, was_ready, bool(self._silence), running, tasks)

    def limit_outage(self) -> None:
        """Start the replacement soon if no slot of the pool is ready."""
        left = self._restart_at - self._clock.now()
        if self._restart is None or left <= LONGEST_OUTAGE_DELAY:
            return
        if not any(peer.is_ready for peer in self._peers):
            self._restart.cancel()
            self._schedule_restart(LONGEST_OUTAGE_DELAY)

    def _schedule_restart(self, seconds: float) -> None:
        self._restart_at = self._clock.now() + seconds
        self._restart = self._clock.call_later(seconds, self._replace)

    def _replace(self) -> None:
        self._restart = None
        self.child = self._spec.make()
        self._listener.on_restart()
        self.start()

    def _log(self, level: int, what: str, **extra: object) -> None:
        _log.log(level, f"{self._spec.name} {what}", extra={**self._spec.labels, **extra})
