"""A slot keeps one child running: watched, killed when it hangs, replaced, given what it can do."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
import time
import weakref
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import pytest

from elmo_serve.processes.arena import Arena
from elmo_serve.processes.channel import Parent
from elmo_serve.processes.child import ChildProcess
from elmo_serve.processes.heartbeat import LOADING_SECONDS, SILENT_SECONDS, Alive
from elmo_serve.processes.slot import (
    LONGEST_DELAY,
    MAX_FAILED_STARTS,
    REAP_SECONDS,
    RECOVERED_SECONDS,
    ChildOptions,
    LostTasks,
    Slot,
)
from tests.support.clock import FakeClock
from tests.support.workers import FakeChild

GIVEN_UP_DELAY = 300.0


def hold(parent: Parent) -> None:
    """Report the start, and read no message."""
    parent.send("ready")
    time.sleep(600)


class Task:
    """A task that can be referred to weakly."""


@dataclass
class Listener:
    """Marks a slot ready when its child sends "ready", and records the rest."""

    messages: list[str] = field(default_factory=list)
    losses: list[LostTasks[str]] = field(default_factory=list)
    restarts: int = 0

    def on_message(self, slot: Slot[str], message: str) -> None:
        self.messages.append(message)
        if message == "ready":
            slot.mark_ready(f"{len(self.messages)} messages")
        elif message.startswith("cannot"):
            slot.mark_failed(message)

    def on_lost(self, slot: Slot[str], lost: LostTasks[str]) -> None:
        self.losses.append(lost)

    def on_restart(self, slot: Slot[str]) -> None:
        self.restarts += 1


class Bench:
    """Some slots of one pool, started, on a fake clock. A task has at most 1,000 units."""

    def __init__(self, count: int = 1) -> None:
        self.clock, self.listener = FakeClock(), Listener()
        self.slots: list[Slot[str]] = []
        self.children: dict[str, FakeChild] = {}
        self.reports: list[str | None] = []
        for number in range(count):
            make = partial(self._make, str(number))
            labels = {"device": str(number)}
            spec = ChildOptions(
                *("worker", "it loads", make),
                largest_size=1_000,
                labels=labels,
                given_up_delay=GIVEN_UP_DELAY,
            )
            self.slots.append(Slot(spec, self.listener, self.clock))
            self.slots[-1].start()

    def _make(self, device: str, report: str | None) -> FakeChild:
        self.reports.append(report)
        self.children[device] = FakeChild()
        return self.children[device]

    @property
    def slot(self) -> Slot[str]:
        return self.slots[0]

    @property
    def child(self) -> FakeChild:
        """The child that is in the first slot now."""
        return self.children["0"]

    @property
    def losses(self) -> list[LostTasks[str]]:
        return self.listener.losses

    def outage(self) -> float:
        """Move the clock until the first slot has a new child; return the seconds that took."""
        lost, start = self.child, self.clock.time
        while self.child is lost:
            self.clock.advance(0.05)
        return self.clock.time - start

    def run(self, seconds: float, size: int = 1_000) -> None:
        """Let the first child take so long for a task."""
        self.slot.assign("task", size)
        self.clock.advance(seconds)
        self.slot.finish()


def test_the_delay_before_a_replacement_doubles_up_to_the_longest() -> None:
    bench = Bench()
    outages = []
    for _ in range(12):
        bench.child.say("ready")
        bench.child.end("was killed by SIGKILL")
        assert bench.slot.state == "down"
        outages.append(bench.outage())

    assert all(after >= before - 0.1 for before, after in itertools.pairwise(outages))
    assert outages[0] < 0.2
    assert outages[-1] == pytest.approx(LONGEST_DELAY, abs=0.1)
    assert bench.listener.restarts == 12


def test_a_child_that_lived_long_is_replaced_without_delay_again() -> None:
    bench = Bench()
    for _ in range(10):
        bench.child.say("ready")
        bench.child.end("was killed by SIGKILL")
        bench.outage()
    bench.child.say("ready")
    bench.clock.advance(RECOVERED_SECONDS + 1)
    bench.child.end("was killed by SIGKILL")

    assert bench.outage() < 0.2


def test_a_loss_names_the_task_that_ran_and_those_that_waited() -> None:
    bench = Bench()
    bench.child.say("ready")
    for task in ("one", "two", "three"):
        bench.slot.assign(task, 1)
    assert bench.slot.finish() == "one"
    bench.child.end("exited with status 1")

    (lost,) = bench.losses
    assert (lost.running, list(lost.waiting)) == ("two", ["three"])
    assert (lost.was_ready, lost.was_hung) == (True, False)
    assert lost.reason == bench.slot.reason == "the worker exited with status 1"
    assert bench.slot.task_count == 0


def test_an_urgent_task_interrupts_the_one_that_runs_and_is_not_in_its_time() -> None:
    bench = Bench()
    bench.child.say("ready")
    bench.slot.assign("bulk", 1_000)
    bench.slot.assign("next", 1_000)
    bench.clock.advance(3)
    bench.slot.assign("urgent", 10, is_urgent=True)
    assert (bench.slot.running, bench.slot.tasks) == ("urgent", ["urgent", "bulk", "next"])
    bench.clock.advance(4)
    assert (bench.slot.finish("urgent"), bench.slot.seconds) == ("urgent", 4)
    bench.clock.advance(1)
    assert bench.slot.interruptible_in == 3
    bench.clock.advance(1)
    assert (bench.slot.finish("bulk"), bench.slot.seconds) == ("bulk", 5)


def test_a_task_may_be_done_before_it_is_interrupted() -> None:
    bench = Bench()
    bench.child.say("ready")
    bench.slot.assign("bulk", 1_000)
    bench.clock.advance(3)
    bench.slot.assign("late", 10, is_urgent=True)
    bench.clock.advance(1)

    assert (bench.slot.finish("bulk"), bench.slot.seconds) == ("bulk", 3)
    assert (bench.slot.running, bench.slot.tasks) == ("late", ["late"])
    assert (bench.slot.finish("late"), bench.slot.seconds) == ("late", 1)


def test_a_child_that_is_silent_for_too_long_is_killed_and_the_reason_tells() -> None:
    bench = Bench()
    bench.child.say("ready")
    child = bench.child
    bench.slot.assign("hangs")
    bench.clock.advance(SILENT_SECONDS - 1)
    assert not child.is_killed
    bench.clock.advance(1)

    assert child.is_killed
    assert bench.losses[0].was_hung
    assert "20 s" in bench.losses[0].reason
    assert bench.losses[0].running == "hangs"


def test_a_hung_child_that_sigkill_does_not_end_is_lost_at_once() -> None:
    bench = Bench()
    bench.child.say("ready")
    bench.slot.assign("hangs", 1)
    bench.slot.assign("waits", 1)
    bench.child.is_stuck = True
    bench.clock.advance(SILENT_SECONDS)

    assert bench.child.is_killed
    assert bench.slot.state == "down"
    (lost,) = bench.losses
    assert (lost.running, list(lost.waiting), lost.was_hung) == ("hangs", ["waits"], True)
    bench.child.say("an answer that is too late")
    assert bench.listener.messages == ["ready"]


def test_the_child_after_a_stuck_one_starts_when_that_has_ended_or_after_some_time() -> None:
    for ends_after in (3.0, 1_000.0):
        bench = Bench()
        bench.child.say("ready")
        bench.slot.assign("hangs", 1)
        bench.child.is_stuck, stuck = True, bench.child
        bench.clock.advance(SILENT_SECONDS)
        bench.clock.advance(min(ends_after, REAP_SECONDS - 1))
        assert bench.child is stuck
        if ends_after < REAP_SECONDS:
            stuck.end("was killed by SIGKILL")
        assert bench.outage() <= 1.1
        bench.child.say("ready")
        if ends_after > REAP_SECONDS:
            stuck.end("was killed by SIGKILL")

        assert bench.slot.state == "ready"
        assert len(bench.losses) == 1


def test_the_tasks_of_a_stuck_child_are_kept_until_it_has_ended() -> None:
    """It may still write to the shared memory that they hold."""
    bench = Bench()
    bench.child.say("ready")
    task = Task()
    held = weakref.ref(task)
    bench.slot.assign(cast("str", task), 1)
    del task
    bench.child.is_stuck, stuck = True, bench.child
    bench.clock.advance(SILENT_SECONDS)
    bench.losses.clear()
    bench.clock.advance(REAP_SECONDS)
    assert bench.child is not stuck
    gc.collect()
    assert held() is not None
    stuck.end("was killed by SIGKILL")
    gc.collect()

    assert held() is None


async def test_a_block_of_a_killed_process_is_given_out_again_once_it_was_reaped() -> None:
    arena, clock, listener = Arena(1 << 20), FakeClock(), Listener()
    spec = ChildOptions("worker", "it loads", lambda _: process)
    process = ChildProcess("test", hold, (), arena)
    slot = Slot(spec, listener, clock)
    slot.start()
    async with asyncio.timeout(300):
        while not slot.is_ready:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    pid, block = process.pid, arena.acquire(100)
    assert pid is not None
    place = block.start
    process.send(block)
    slot.assign(cast("str", block), 1)
    del block
    os.kill(pid, signal.SIGSTOP)
    clock.advance(SILENT_SECONDS)
    assert listener.losses.pop().was_hung
    async with asyncio.timeout(300):
        while arena.acquire(100).start != place:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    with pytest.raises(ProcessLookupError):  # a zombie would still have its number
        os.kill(pid, 0)


def test_a_child_that_says_that_it_computes_is_not_killed() -> None:
    bench = Bench()
    bench.child.say("ready")
    bench.slot.assign("long")
    for seconds in (SILENT_SECONDS, LOADING_SECONDS, SILENT_SECONDS):
        bench.child.say(Alive(seconds))
        bench.clock.advance(seconds - 1)

    assert bench.losses == []
    assert bench.listener.messages == ["ready"]


def test_an_urgent_task_does_not_shorten_the_silence_that_a_child_has_asked_for() -> None:
    """The child may be reading a softmax when it is given the task."""
    bench = Bench()
    bench.child.say("ready")
    bench.slot.assign("score")
    bench.child.say(Alive(LOADING_SECONDS))
    bench.slot.assign("urgent", is_urgent=True)
    bench.clock.advance(LOADING_SECONDS - 1)

    assert bench.losses == []


def test_an_idle_child_may_be_silent() -> None:
    bench = Bench()
    bench.child.say("ready")
    bench.slot.assign("task")
    bench.slot.finish()
    bench.child.say(Alive())
    bench.clock.advance(LOADING_SECONDS)

    assert bench.losses == []


def test_a_start_that_takes_too_long_is_ended() -> None:
    bench = Bench()
    child = bench.child
    bench.clock.advance(LOADING_SECONDS)

    assert child.is_killed
    assert not bench.losses[0].was_ready


def test_the_reason_that_a_child_gives_for_its_failed_start_is_kept() -> None:
    bench = Bench()
    bench.child.say("cannot read the model")
    bench.child.end("exited with status 0")

    assert bench.slot.start_failure == bench.slot.reason == "cannot read the model"
    assert bench.slot.failed_starts == 1


def test_a_slot_has_given_up_after_many_failed_starts_until_one_succeeds() -> None:
    bench = Bench()
    for start in range(MAX_FAILED_STARTS):
        assert not bench.slot.has_given_up, start
        bench.child.end("exited with status 1")
        seconds = bench.outage()
    assert bench.slot.has_given_up
    assert seconds == pytest.approx(GIVEN_UP_DELAY, abs=0.1)
    bench.child.say("ready")

    assert not bench.slot.has_given_up


def test_messages_of_a_child_that_was_replaced_are_dropped() -> None:
    bench = Bench()
    before = bench.child
    before.end("exited with status 1")
    bench.outage()
    before.say("ready")
    before.end("exited twice")

    assert bench.slot.state == "loading"
    assert len(bench.losses) == 1


@pytest.mark.parametrize("moment", ["loading", "ready", "down"])
async def test_a_slot_that_is_stopped_starts_no_child(moment: str) -> None:
    bench = Bench()
    child = bench.child
    if moment == "ready":
        child.say("ready")
    if moment == "down":
        child.end("exited with status 1")
    await bench.slot.stop()
    child.end("exited with status 0")
    bench.clock.advance(1_000)

    assert bench.child is child
    assert child.is_killed == (moment == "loading")
    assert len(bench.losses) == (moment == "down")


def test_a_slot_that_is_killed_reports_no_loss() -> None:
    bench = Bench()
    bench.child.say("ready")
    bench.slot.assign("task", 1)
    bench.slot.kill()
    bench.clock.advance(1_000)

    assert bench.child.is_killed
    assert bench.losses == []


def test_the_next_child_is_made_from_the_report_of_the_last_one_that_was_ready() -> None:
    bench = Bench()
    bench.child.end("exited with status 1")
    bench.outage()
    bench.child.say("ready")
    bench.child.end("exited with status 1")
    bench.outage()

    assert bench.reports == [None, None, "1 messages"]


def test_the_pace_is_that_of_the_last_full_task() -> None:
    bench = Bench()
    bench.slot.mark_ready(None, 1e-3)
    assert bench.slot.seconds_per_unit_when_full == pytest.approx(1e-3)
    bench.run(seconds=2.0)
    assert bench.slot.seconds == 2.0
    assert bench.slot.seconds_per_unit_when_full == pytest.approx(2e-3)
    bench.run(seconds=4.0, size=10)  # a short task is bound by latency
    assert bench.slot.seconds_per_unit_when_full == pytest.approx(2e-3)
