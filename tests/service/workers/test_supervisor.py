"""A slot keeps one child running: it is watched, killed when it hangs, and always replaced."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from elmo_serve.workers.supervisor import (
    HOPELESS_STARTS,
    LONGEST_DELAY,
    LONGEST_OUTAGE_DELAY,
    SOUND_SECONDS,
    ChildSlot,
    ChildSpec,
    Loss,
)
from elmo_serve.workers.watchdog import Timeouts
from tests.support.clock import FakeClock

TIMEOUTS = Timeouts(load=100, first_batch=50, batch=5)


class FakeChild:
    """A child that does only what a test makes it do."""

    is_started = False
    is_killed = False
    is_stopped = False

    def start(self, on_message: Callable[[str], None], on_exit: Callable[[str], None]) -> None:
        self.is_started = True
        self.say, self.end = on_message, on_exit

    def kill(self) -> None:
        self.is_killed = True
        self.end("was killed by SIGKILL")

    async def stop(self) -> None:
        self.is_stopped = True


@dataclass
class Listener:
    """Marks a slot ready when its child sends "ready", and records the rest."""

    messages: list[str] = field(default_factory=list)
    losses: list[Loss[str]] = field(default_factory=list)
    restarts: int = 0

    def on_message(self, message: str) -> None:
        self.messages.append(message)
        if message == "ready":
            self.slot.mark_ready()
        elif message.startswith("cannot"):
            self.slot.mark_failed(message)

    def on_lost(self, loss: Loss[str]) -> None:
        self.losses.append(loss)

    def on_restart(self) -> None:
        self.restarts += 1

    slot: ChildSlot[FakeChild, str, str] = field(init=False)


class Bench:
    """Some slots of one pool, started, on a fake clock."""

    def __init__(self, count: int = 1) -> None:
        self.clock = FakeClock()
        self.listeners = [Listener() for _ in range(count)]
        peers: list[ChildSlot[FakeChild, str, str]] = []
        for listener in self.listeners:
            spec = ChildSpec("worker", "it loads", FakeChild, TIMEOUTS, 1, {"device": "cpu"})
            listener.slot = ChildSlot(spec, listener, peers, self.clock)
            listener.slot.start()

    @property
    def slot(self) -> ChildSlot[FakeChild, str, str]:
        return self.listeners[0].slot

    @property
    def losses(self) -> list[Loss[str]]:
        return self.listeners[0].losses

    def outage(self, slot: ChildSlot[FakeChild, str, str]) -> float:
        """Move the clock until the slot has a new child, and return the seconds that took."""
        lost, start = slot.child, self.clock.time
        while slot.child is lost:
            self.clock.advance(0.05)
        return self.clock.time - start


def test_a_slot_is_ready_when_its_child_is() -> None:
    bench = Bench()
    assert (bench.slot.state, bench.slot.reason) == ("loading", "it loads")
    bench.slot.child.say("ready")

    assert (bench.slot.state, bench.slot.reason) == ("ready", "")


def test_a_child_that_dies_as_soon_as_it_is_ready_is_always_back_soon() -> None:
    """With no other child there is nothing to spare: the outage stays short."""
    bench = Bench()
    outages = []
    for _ in range(50):
        bench.slot.child.say("ready")
        bench.slot.child.end("was killed by SIGKILL")
        assert bench.slot.state == "down"
        outages.append(bench.outage(bench.slot))

    assert max(outages) <= LONGEST_OUTAGE_DELAY + 0.1
    assert outages[0] < 0.2
    assert bench.listeners[0].restarts == 50


def test_beside_a_child_that_is_ready_the_delay_grows() -> None:
    bench = Bench(2)
    other = bench.listeners[1].slot
    other.child.say("ready")
    outages = []
    for _ in range(12):
        bench.slot.child.say("ready")
        bench.slot.child.end("was killed by SIGKILL")
        outages.append(bench.outage(bench.slot))

    assert all(after >= before - 0.1 for before, after in itertools.pairwise(outages))
    assert outages[-1] == pytest.approx(LONGEST_DELAY, abs=0.1)


def test_the_loss_of_the_last_child_shortens_the_delay_of_the_others() -> None:
    bench = Bench(2)
    other = bench.listeners[1].slot
    other.child.say("ready")
    for _ in range(12):
        bench.slot.child.say("ready")
        bench.slot.child.end("was killed by SIGKILL")
        bench.outage(bench.slot)
    bench.slot.child.end("exited with status 1")
    other.child.end("was killed by SIGKILL")

    assert bench.outage(bench.slot) <= LONGEST_OUTAGE_DELAY + 0.1


def test_a_child_that_lived_long_is_replaced_without_delay_again() -> None:
    bench = Bench()
    for _ in range(10):
        bench.slot.child.say("ready")
        bench.slot.child.end("was killed by SIGKILL")
        bench.outage(bench.slot)
    bench.slot.child.say("ready")
    bench.clock.advance(SOUND_SECONDS + 1)
    bench.slot.child.end("was killed by SIGKILL")

    assert bench.outage(bench.slot) < 0.2


def test_a_loss_names_the_task_that_ran_and_those_that_waited() -> None:
    bench = Bench()
    bench.slot.child.say("ready")
    for task in ("one", "two", "three"):
        bench.slot.assign(task, 1)
    assert bench.slot.finish()[0] == "one"
    bench.slot.child.end("exited with status 1")

    (loss,) = bench.losses
    assert (loss.running, list(loss.waiting)) == ("two", ["three"])
    assert (loss.was_ready, loss.was_hung) == (True, False)
    assert loss.reason == bench.slot.reason == "the worker exited with status 1"
    assert bench.slot.task_count == 0


def test_a_child_that_is_silent_for_too_long_is_killed_and_the_reason_tells() -> None:
    bench = Bench()
    bench.slot.child.say("ready")
    bench.slot.assign("first", 1)
    bench.clock.advance(1)
    bench.slot.finish()
    child = bench.slot.child
    bench.slot.assign("hangs", 1)
    bench.clock.advance(9)
    assert not child.is_killed
    bench.clock.advance(1)

    assert child.is_killed
    assert bench.losses[0].was_hung
    assert bench.losses[0].reason == (
        "the worker was killed by SIGKILL after 10.0 s without a message"
    )
    assert bench.losses[0].running == "hangs"


def test_the_time_that_a_task_took_begins_when_the_one_before_it_ends() -> None:
    bench = Bench()
    bench.slot.child.say("ready")
    bench.slot.assign("one", 1)
    bench.slot.assign("two", 1)
    bench.clock.advance(3)
    assert bench.slot.finish() == ("one", 3)
    bench.clock.advance(2)

    assert bench.slot.running_seconds == 2
    assert bench.slot.finish() == ("two", 2)


def test_progress_renews_the_time_of_a_task() -> None:
    bench = Bench()
    bench.slot.child.say("ready")
    bench.slot.assign("long", 1)
    for _ in range(10):
        bench.clock.advance(TIMEOUTS.first_batch - 1)
        bench.slot.renew()

    assert bench.losses == []


def test_a_suspended_machine_kills_no_child() -> None:
    bench = Bench()
    bench.slot.child.say("ready")
    bench.slot.assign("task", 1)
    bench.clock.suspend(10_000)

    assert bench.losses == []


def test_a_start_that_takes_too_long_is_ended() -> None:
    bench = Bench()
    child = bench.slot.child
    bench.clock.advance(TIMEOUTS.load)

    assert child.is_killed
    assert not bench.losses[0].was_ready


def test_the_reason_that_a_child_gives_for_its_failed_start_is_kept() -> None:
    bench = Bench()
    bench.slot.child.say("cannot read the model")
    bench.slot.child.end("exited with status 0")

    assert bench.slot.start_failure == bench.slot.reason == "cannot read the model"
    assert bench.slot.failed_starts == 1


def test_a_slot_is_hopeless_after_many_failed_starts_until_one_succeeds() -> None:
    bench = Bench()
    for start in range(HOPELESS_STARTS):
        assert not bench.slot.is_hopeless, start
        bench.slot.child.end("exited with status 1")
        bench.outage(bench.slot)
    assert bench.slot.is_hopeless
    bench.slot.child.say("ready")

    assert not bench.slot.is_hopeless


def test_messages_of_a_child_that_was_replaced_are_dropped() -> None:
    bench = Bench()
    before = bench.slot.child
    before.end("exited with status 1")
    bench.outage(bench.slot)
    before.say("ready")
    before.end("exited twice")

    assert bench.slot.state == "loading"
    assert len(bench.losses) == 1


@pytest.mark.parametrize("moment", ["loading", "ready", "down"])
async def test_a_slot_that_is_stopped_starts_no_child(moment: str) -> None:
    bench = Bench()
    child = bench.slot.child
    if moment == "ready":
        child.say("ready")
    if moment == "down":
        child.end("exited with status 1")
    await bench.slot.stop()
    child.end("exited with status 0")
    bench.clock.advance(1_000)

    assert bench.slot.child is child
    assert child.is_killed == (moment == "loading")
    assert len(bench.losses) == (moment == "down")


def test_a_slot_that_is_killed_reports_no_loss() -> None:
    bench = Bench()
    bench.slot.child.say("ready")
    bench.slot.assign("task", 1)
    bench.slot.kill()
    bench.clock.advance(1_000)

    assert bench.slot.child.is_killed
    assert bench.losses == []
