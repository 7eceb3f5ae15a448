"""A pool does every task once, in parts or whole, and refuses one that two processes die of."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from elmo_serve.errors import InvalidRequest, Unavailable
from elmo_serve.http.helpers.pool import HelperError, HelperPool, PoolOptions
from elmo_serve.metrics import Metrics
from elmo_serve.processes.arena import Arena, Bytes
from elmo_serve.processes.slot import Started
from tests.support.clock import FakeClock
from tests.support.fake_child import FakeChild


def spell(word: str) -> list[str]:
    """Return the letters of a word."""
    return list(word)


def letters_of(memory: Bytes) -> str:
    """Return the text that lies in shared memory."""
    return memory.tobytes().decode()


def write(target: Bytes, word: str) -> int:
    """Write a word to shared memory."""
    target[: len(word)] = list(word.encode())
    return len(word)


def refuse(detail: str) -> None:
    """Raise the error of a request."""
    raise InvalidRequest(detail)


def boom(error: Exception) -> None:
    """Raise an exception."""
    raise error


def unsendable() -> object:
    """Return what cannot be pickled."""
    return lambda: None


WORDS = PoolOptions(
    name="write",
    title="letter process",
)


@asynccontextmanager
async def pool(count: int = 2) -> AsyncIterator[HelperPool]:
    found = HelperPool(WORDS, Arena(), Metrics(), count=count)
    found.start()
    try:
        yield found
    finally:
        await found.stop()


class Bench:
    """A pool of fake processes, on a fake clock."""

    def __init__(self, count: int) -> None:
        self.metrics, self.clock = Metrics(), FakeClock()
        self.processes: list[FakeChild] = []
        self.pool = HelperPool(
            WORDS, Arena(), self.metrics, self.clock, count=count, make=self._make
        )
        self.pool.start()

    def run(self, word: str) -> asyncio.Future[Any]:
        """Queue a word."""
        return self.pool.run(spell, word)

    def _make(self) -> FakeChild:
        self.processes.append(FakeChild())
        return self.processes[-1]

    @property
    def process(self) -> FakeChild:
        """The newest process."""
        return self.processes[-1]

    @property
    def tasks(self) -> list[Any]:
        """The words that the newest process was given."""
        return [call.arguments[0] for call in self.process.sent]

    def replace(self) -> None:
        """Let the lost process be replaced by one that is ready."""
        self.clock.advance(1.0)
        self.process.say(Started())

    def lost(self, how: str = "lost") -> float:
        labels = {"reason": f"write_{how}"}
        return self.metrics.registry.get_sample_value("elmo_failures_total", labels) or 0.0


@contextmanager
def bench(count: int = 1) -> Iterator[Bench]:
    found = Bench(count)
    for process in found.processes:
        process.say(Started())
    yield found


async def test_every_call_gets_its_own_result_whole() -> None:
    """Two processes are given the calls; memory is passed by its name."""
    words = [chr(65 + n) * (n * 300 + 1) for n in range(20)]
    async with pool() as helpers:
        spelt = [helpers.run(spell, word) for word in words]
        block = helpers.arena.acquire(5)
        block.array[:] = list(b"words")
        read = helpers.run(letters_of, block)
        del block
        written = helpers.run(write, "letters", output=100)

        assert await asyncio.gather(*spelt) == [list(word) for word in words]
        assert await read == "words"
        assert bytes(await written) == b"letters"


async def test_a_refusal_of_a_function_reaches_its_caller_and_the_process_goes_on() -> None:
    async with pool() as helpers:
        with pytest.raises(InvalidRequest, match="not this"):
            await helpers.run(refuse, "not this")

        assert await helpers.run(spell, "yes") == ["y", "e", "s"]


@pytest.mark.parametrize(
    ("function", "arguments", "raised"),
    [
        (boom, (ValueError("no number"),), HelperError),
        (boom, (MemoryError("no room"),), MemoryError),
        (unsendable, (), HelperError),
    ],
)
async def test_an_exception_ends_its_call_and_not_the_process(
    function: Callable[..., Any], arguments: tuple[Any, ...], raised: type[Exception]
) -> None:
    """The trace reaches the log of the server."""
    async with pool(1) as helpers:
        before = await helpers.run(os.getpid)
        with pytest.raises(raised) as caught:
            await helpers.run(function, *arguments)

        assert raised is MemoryError or "Traceback" in str(caught.value)
        assert await helpers.run(os.getpid) == before


async def test_processes_of_a_lazy_kind_are_spawned_for_the_first_call() -> None:
    made: list[FakeChild] = []

    def make() -> FakeChild:
        made.append(FakeChild())
        return made[-1]

    lazy = replace(WORDS, is_lazy=True)
    helpers = HelperPool(lazy, Arena(), Metrics(), FakeClock(), make=make)
    helpers.start()
    assert not made[0].is_started
    helpers.run(spell, "first")
    assert made[0].is_started
    made[0].say(Started())

    assert [call.arguments for call in made[0].sent] == [("first",)]


async def test_the_tasks_of_a_lost_process_are_done_in_the_same_order_by_the_next_one() -> None:
    with bench() as b:
        pending = [b.run(str(number)) for number in range(6)]
        b.process.end("was killed by SIGKILL")
        b.replace()
        for number in range(6):
            b.process.say(number)

        assert b.tasks == [str(number) for number in range(6)]
        assert [each.result() for each in pending] == list(range(6))
        assert b.lost() == 1


async def test_a_task_that_kills_its_process_twice_is_refused_and_the_others_are_done() -> None:
    with bench() as b:
        deadly, sound = b.run(""), b.run("ab")
        for _ in range(2):
            b.process.end("exited with status 3")
            b.replace()
        b.process.say(2)

        with pytest.raises(Unavailable, match="the letter process exited with status"):
            deadly.result()
        assert sound.result() == 2
        assert b.lost() == 2


async def test_while_no_process_can_be_started_tasks_are_refused() -> None:
    with bench() as b:
        b.process.end("was killed by SIGKILL")
        waiting = b.run("a")
        b.clock.advance(1.0)
        b.process.end("could not be run: Too many open files")

        with pytest.raises(Unavailable, match="Too many open files"):
            waiting.result()


async def test_a_call_without_memory_for_its_result_is_refused() -> None:
    with bench() as b:
        too_large = b.pool.run(write, "word", output=2 * b.pool.arena.size)
        sound = b.run("ab")
        b.process.say(2)

        with pytest.raises(Unavailable, match="shared memory"):
            too_large.result()
        assert sound.result() == 2


async def test_an_abandoned_task_is_not_begun() -> None:
    with bench() as b:
        pending = [b.run(str(number)) for number in range(4)]
        pending[2].cancel()
        for _ in range(3):
            b.process.say(1)

        assert b.tasks == ["0", "1", "3"]
