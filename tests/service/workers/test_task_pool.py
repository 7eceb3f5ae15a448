"""A pool does every task once, in parts or whole, and refuses one that two processes die of."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from elmo_serve.errors import Unavailable
from elmo_serve.metrics import Metrics
from elmo_serve.workers.process import ChildProcess, Parent
from elmo_serve.workers.shared_memory import SharedMemoryPool
from elmo_serve.workers.task_messages import Part, Started
from elmo_serve.workers.task_pool import TaskKind, TaskPool
from elmo_serve.workers.watchdog import Timeouts
from tests.support.clock import FakeClock


def work(parent: Parent) -> None:
    """Send each letter of a word as a part, then its length; die of an empty word."""
    parent.send(Started())
    while True:
        word: bytes = parent.receive()
        if not word:
            os._exit(3)
        parent.send(Part([word[:1]]))
        parent.send(Part([word[1:]]))
        parent.send(len(word))


TIMEOUTS = Timeouts(load=100, first_batch=60, batch=5)
KIND = TaskKind("json", "letter process", work, "No letters", TIMEOUTS, minimum_size=1)


@asynccontextmanager
async def pool(count: int) -> AsyncIterator[tuple[TaskPool[bytes], Metrics]]:
    metrics = Metrics()
    found: TaskPool[bytes] = TaskPool(KIND, count, SharedMemoryPool(), metrics)
    found.start()
    try:
        yield found, metrics
    finally:
        await found.stop()


class FakeProcess(ChildProcess):
    """A process that does only what a test makes it do."""

    def __init__(self) -> None:
        self.tasks: list[Any] = []
        self.is_killed = False

    def start(self, on_message: Callable[[Any], None], on_exit: Callable[[str], None]) -> None:
        self.say, self.end = on_message, on_exit

    def send(self, message: object, *_: object) -> None:
        self.tasks.append(message)

    def kill(self) -> None:
        self.is_killed = True
        self.end("was killed by SIGKILL")


class Bench:
    """A pool of fake processes, on a fake clock."""

    def __init__(self, count: int) -> None:
        self.metrics, self.clock = Metrics(), FakeClock()
        self.processes: list[FakeProcess] = []
        self.pool: TaskPool[bytes] = TaskPool(
            KIND, count, SharedMemoryPool(), self.metrics, self.clock, self._make
        )
        self.pool.start()

    def _make(self) -> FakeProcess:
        self.processes.append(FakeProcess())
        return self.processes[-1]

    @property
    def process(self) -> FakeProcess:
        """The newest process."""
        return self.processes[-1]

    def replace(self) -> None:
        """Let the lost process be replaced by one that is ready."""
        self.clock.advance(1.0)
        self.process.say(Started())

    def lost(self, how: str = "lost") -> float:
        labels = {"reason": f"json_{how}"}
        return self.metrics.registry.get_sample_value("elmo_failures_total", labels) or 0.0


@contextmanager
def bench(count: int = 1) -> Iterator[Bench]:
    found = Bench(count)
    for process in found.processes:
        process.say(Started())
    yield found


async def test_every_task_gets_its_own_parts_and_result() -> None:
    async with pool(2) as (tasks, _):
        words = [bytes([65 + n]) * (n + 1) for n in range(20)]
        pending = [tasks.submit(word, 1, first=n % 3 == 0) for n, word in enumerate(words)]
        lengths = await asyncio.gather(*(one.future for one in pending))

        assert lengths == list(range(1, 21))
        assert [one.items for one in pending] == [[word[:1], word[1:]] for word in words]


async def test_tasks_are_done_in_the_order_they_came_and_the_first_ones_before_the_others() -> None:
    with bench() as b:
        for number in range(12):
            b.pool.submit(b"%d" % number, 1, first=number % 2 == 0)
        for _ in range(12):
            b.process.say(1)

        # Two tasks were given to the process before the others came.
        later = [b"2", b"4", b"6", b"8", b"10", b"3", b"5", b"7", b"9", b"11"]
        assert b.process.tasks == [b"0", b"1", *later]


async def test_the_tasks_of_a_lost_process_are_done_in_the_same_order_by_the_next_one() -> None:
    with bench() as b:
        pending = [b.pool.submit(b"%d" % number, 1, first=number < 4) for number in range(6)]
        b.process.end("was killed by SIGKILL")
        b.replace()
        for number in range(6):
            b.process.say(number)

        assert b.process.tasks == [b"%d" % number for number in range(6)]
        assert [each.future.result() for each in pending] == list(range(6))
        assert b.lost() == 1


async def test_a_task_that_kills_its_process_twice_is_refused_and_the_others_are_done() -> None:
    with bench() as b:
        deadly, sound = b.pool.submit(b"", 1), b.pool.submit(b"ab", 1)
        for _ in range(2):
            b.process.end("exited with status 3")
            b.replace()
        b.process.say(2)

        with pytest.raises(Unavailable, match="No letters: the letter process exited with status"):
            deadly.future.result()
        assert sound.future.result() == 2
        assert b.lost() == 2


async def test_while_no_process_can_be_started_tasks_are_refused() -> None:
    with bench() as b:
        b.process.end("was killed by SIGKILL")
        waiting = b.pool.submit(b"a", 1)
        b.clock.advance(1.0)
        b.process.end("could not be run: Too many open files")

        with pytest.raises(Unavailable, match="Too many open files"):
            waiting.future.result()


async def test_a_process_that_hangs_does_not_hold_up_the_others() -> None:
    with bench(2) as b:
        pending = [b.pool.submit(b"%d" % number, 1) for number in range(12)]
        hanging, sound = b.processes
        for _ in range(10):
            sound.say(1)

        assert len(hanging.tasks) == 2
        assert [each.future.done() for each in pending].count(True) == 10


async def test_an_abandoned_task_is_not_begun() -> None:
    with bench() as b:
        pending = [b.pool.submit(b"%d" % number, 1) for number in range(4)]
        pending[2].future.cancel()
        for _ in range(3):
            b.process.say(1)

        assert b.process.tasks == [b"0", b"1", b"3"]


@pytest.mark.parametrize("place", [0, 1])
async def test_a_process_does_not_work_long_on_an_abandoned_task(place: int) -> None:
    """A text that takes a minute held its process for a minute, whatever its deadline."""
    with bench() as b:
        pending = [b.pool.submit(b"%d" % number, 1) for number in range(3)]
        pending[place].future.cancel()
        await asyncio.sleep(0)
        if place:
            b.clock.advance(30)  # a slow task before it does not raise its time
            b.process.say(0)
        b.process.say(Part([b"progress"]))
        lost = b.process
        b.clock.advance(TIMEOUTS.batch)
        assert lost.is_killed
        b.replace()
        for _ in range(2 - place):
            b.process.say(1)

        assert b.lost("hung") == 1
        assert [each.future.done() for each in pending] == [True] * 3
        assert not [each for each in pending if not each.future.cancelled() and each.attempts]


async def test_a_task_that_somebody_waits_for_has_its_full_time() -> None:
    with bench() as b:
        b.pool.submit(b"long", 1)
        b.clock.advance(TIMEOUTS.first_batch - 1)

        assert not b.process.is_killed
