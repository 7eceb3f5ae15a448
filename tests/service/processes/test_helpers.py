"""A pool does every call once, slow ones apart; one that hangs or ends two processes is refused."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from elmo_serve.errors import InvalidRequest, Unavailable
from elmo_serve.metrics import Metrics
from elmo_serve.processes.arena import Arena, Bytes
from elmo_serve.processes.helpers import HelperError, HelperPool
from elmo_serve.processes.parts import in_order
from elmo_serve.processes.slot import Started
from tests.support.clock import FakeClock
from tests.support.engines import turns
from tests.support.workers import FakeChild


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


@asynccontextmanager
async def pool() -> AsyncIterator[HelperPool]:
    """Two real processes, of which one takes slow calls."""
    found = HelperPool(Arena(), Metrics(), 2)
    found.start()
    try:
        yield found
    finally:
        await found.stop()


class Bench:
    """A pool of fake processes, on a fake clock. The first one takes no slow calls."""

    def __init__(self, cores: int = 4) -> None:
        self.metrics, self.clock = Metrics(), FakeClock()
        self.processes: list[FakeChild] = []
        self.pool = HelperPool(Arena(), self.metrics, cores, self.clock, self._make)
        self.pool.start()
        for process in self.processes:
            process.say(Started())

    def run(
        self, word: str, client: str = "", *, is_slow: bool = False, output: int = 0
    ) -> asyncio.Future[Any]:
        """Queue a word."""
        return self.pool.run(spell, word, client=client, is_slow=is_slow, output=output)

    def _make(self) -> FakeChild:
        self.processes.append(FakeChild())
        return self.processes[-1]

    def given(self, process: int = -1) -> list[Any]:
        """The words that a process was given; the newest one by default."""
        return [order.arguments[-1] for order in self.processes[process].sent]

    def replace(self) -> None:
        """Let the lost process be replaced by one that is ready."""
        self.clock.advance(1.0)
        self.processes[-1].say(Started())

    def failures(self, how: str = "lost") -> float:
        labels = {"reason": f"helper_{how}"}
        return self.metrics.registry.get_sample_value("elmo_failures_total", labels) or 0.0


async def test_every_call_gets_its_own_result_whole() -> None:
    """Two processes are given the calls; memory is passed by its name."""
    words = [chr(65 + n) * (n * 300 + 1) for n in range(20)]
    async with pool() as helpers:
        spelt = [
            helpers.run(spell, word, client="", is_slow=bool(n % 3)) for n, word in enumerate(words)
        ]
        block = helpers.arena.acquire(5)
        block.array[:] = list(b"words")
        read = helpers.run(letters_of, block, client="")
        del block
        written = helpers.run(write, "letters", client="", output=100)

        assert await asyncio.gather(*spelt) == [list(word) for word in words]
        assert await read == "words"
        memory, size = await written
        assert bytes(memory[:size]) == b"letters"


async def test_a_refusal_of_a_function_reaches_its_caller_and_the_process_goes_on() -> None:
    async with pool() as helpers:
        with pytest.raises(InvalidRequest, match="not this"):
            await helpers.run(refuse, "not this", client="")

        assert await helpers.run(spell, "yes", client="") == ["y", "e", "s"]


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
    async with pool() as helpers:  # one of them takes slow calls
        before = await helpers.run(os.getpid, client="", is_slow=True)
        with pytest.raises(raised) as caught:
            await helpers.run(function, *arguments, client="", is_slow=True)

        assert raised is MemoryError or "Traceback" in str(caught.value)
        assert await helpers.run(os.getpid, client="", is_slow=True) == before


@pytest.mark.parametrize(("cores", "count"), [(1, 2), (2, 2), (6, 3), (16, 8), (64, 8)])
async def test_a_pool_has_half_of_the_cores_and_two_to_eight_processes(
    cores: int, count: int
) -> None:
    assert len(Bench(cores).processes) == count


# Which process gets a call


async def test_a_process_with_a_slow_call_gets_nothing_else_and_one_takes_none() -> None:
    b = Bench(6)
    for word in ("slow 1", "slow 2", "slow 3"):
        b.run(word, is_slow=True)
    quick = [b.run(str(number)) for number in range(4)]
    assert [b.given(process) for process in range(3)] == [["0", "1"], ["slow 1"], ["slow 2"]]
    for _ in quick:
        b.processes[0].say(0)

    assert all(each.done() for each in quick)
    assert b.given(0) == ["0", "1", "2", "3"]


async def test_a_slow_call_waits_for_an_idle_process_which_gets_no_other_calls_until_then() -> None:
    b = Bench()
    for number in range(4):
        b.run(str(number))
    b.run("slow", is_slow=True)
    b.run("4")
    assert (b.given(0), b.given(1)) == (["0", "2"], ["1", "3"])
    b.processes[1].say(0)
    assert b.given(1) == ["1", "3"]
    b.processes[1].say(0)
    b.processes[0].say(0)

    assert (b.given(0), b.given(1)) == (["0", "2", "4"], ["1", "3", "slow"])


@pytest.mark.parametrize("is_slow", [False, True])
async def test_calls_are_taken_in_turn_by_client(is_slow: bool) -> None:
    """A client that comes late waits for the calls that run, and for one call of each other."""
    b = Bench()
    for number in range(8):
        b.run(f"a{number}", "a", is_slow=is_slow)
    for client in "bc":
        for number in range(2):
            b.run(f"{client}{number}", client, is_slow=is_slow)
    begun = len(b.given(1)) + len(b.given(0))
    for _ in range(20):
        for process in b.processes[is_slow:]:
            if len(b.given(b.processes.index(process))):
                finish(b, process)
    order = [word for process in (0, 1) for word in b.given(process)]

    assert begun == (1 if is_slow else 4)
    assert len(order) == 12
    if is_slow:
        assert order == ["a0", "b0", "c0", "a1", "b1", "c1", *(f"a{n}" for n in range(2, 8))]


def finish(b: Bench, process: FakeChild) -> None:
    """Let a process end its call, if it has one."""
    slot = b.pool._slots[b.processes.index(process)]
    if slot.task_count:
        process.say(0)


async def test_four_calls_of_one_request_are_in_the_pool_and_a_small_request_waits_for_them() -> (
    None
):
    """An answer of 250 MB in JSON has some 250 parts; its neighbour has one."""
    b, done = Bench(), list[int]()
    large = asyncio.ensure_future(
        in_order((b.run(f"part {number}", "a") for number in range(250)), done.append)
    )
    await turns()
    small = b.run("small", "a")  # of the same client, behind a proxy without keys
    assert (b.given(0), b.given(1)) == (["part 0", "part 2"], ["part 1", "part 3"])
    b.processes[0].say(0)
    assert b.given(0)[-1] == "small"
    b.processes[0].say(2)
    b.processes[0].say("small's")
    assert small.result() == "small's"
    while not large.done():
        await turns()
        for process in b.processes:
            finish(b, process)

    assert len(done) == 250


async def test_calls_of_a_request_that_fails_are_cancelled() -> None:
    b = Bench()

    def refuse_it(_: object) -> None:
        raise InvalidRequest("no")

    request = asyncio.ensure_future(in_order((b.run(str(n)) for n in range(9)), refuse_it))
    await turns()
    b.processes[0].say(0)
    with pytest.raises(InvalidRequest):
        await request
    await turns()
    for process in b.processes:
        finish(b, process)
        finish(b, process)

    assert sorted(b.given(0) + b.given(1)) == ["0", "1", "2", "3"]
    assert not any(slot.task_count for slot in b.pool._slots)


# A process is lost


async def test_the_calls_of_a_lost_process_are_done_in_the_same_order_by_the_next_one() -> None:
    b = Bench()
    b.processes[0].end("was killed by SIGKILL")  # one that stays away
    pending = [b.run(str(number)) for number in range(6)]
    b.processes[1].end("was killed by SIGKILL")
    b.replace()
    for number in range(6):
        b.processes[-1].say(number)

    assert b.given() == [str(number) for number in range(6)]
    assert [each.result() for each in pending] == list(range(6))
    assert b.failures() == 2


async def test_a_call_that_ends_its_process_twice_is_refused_and_the_others_are_done() -> None:
    b = Bench()
    deadly, sound = b.run("", is_slow=True), b.run("ab", is_slow=True)
    for _ in range(2):
        b.processes[-1].end("exited with status 3")
        b.replace()
    b.processes[-1].say(2)

    with pytest.raises(Unavailable, match="exited with status"):
        deadly.result()
    assert sound.result() == 2
    assert (b.failures(), b.failures("hung")) == (2, 0)


async def test_a_call_that_takes_too_long_is_refused_at_once_and_the_others_are_done() -> None:
    b = Bench()
    hung, behind = b.run("long", is_slow=True), b.run("next", is_slow=True)
    b.clock.advance(29)
    assert not b.processes[1].is_killed
    b.clock.advance(1)
    assert b.processes[1].is_killed
    b.replace()
    b.processes[-1].say("done")

    with pytest.raises(Unavailable, match="30 s") as refusal:
        hung.result()
    assert refusal.value.retry_after == 5
    assert behind.result() == "done"
    assert (b.given(1), b.given()) == (["long"], ["next"])
    assert (b.failures(), b.failures("hung")) == (0, 1)


async def test_a_call_that_is_slow_on_a_starved_machine_is_not_hung() -> None:
    """The server's own timers are late there."""
    b = Bench()
    call = b.run("long", is_slow=True)
    for _ in range(29):
        b.clock.suspend(3.0)
    b.clock.suspend(3.0)
    assert not b.processes[1].is_killed
    b.processes[1].say("done")

    assert call.result() == "done"


async def test_a_hung_call_that_nobody_waits_for_is_dropped_and_is_no_failure() -> None:
    b = Bench()
    call = b.run("long", is_slow=True)
    call.cancel()
    b.clock.advance(30)

    assert b.processes[1].is_killed
    assert (b.failures(), b.failures("hung")) == (0, 0)


@pytest.mark.parametrize("is_slow", [False, True])
async def test_while_no_process_can_be_started_calls_are_refused(is_slow: bool) -> None:
    b = Bench()
    for process in b.processes:
        process.end("was killed by SIGKILL")
    waiting = b.run("a", is_slow=is_slow)
    assert b.pool.fault is None
    b.clock.advance(1.0)
    for process in b.processes[2:]:
        process.end("could not be run: Too many open files")

    with pytest.raises(Unavailable, match="Too many open files"):
        waiting.result()
    assert b.pool.fault is not None and "Too many open files" in b.pool.fault
    b.clock.advance(1.0)
    b.processes[-1].say(Started())
    assert b.pool.fault is None


async def test_slow_calls_are_refused_while_only_the_process_that_takes_none_can_start() -> None:
    b = Bench()
    b.processes[1].end("was killed by SIGKILL")
    slow, quick = b.run("slow", is_slow=True), b.run("quick")
    b.clock.advance(1.0)
    b.processes[-1].end("could not be run: Cannot allocate memory")
    b.processes[0].say("done")

    with pytest.raises(Unavailable, match="Cannot allocate memory"):
        slow.result()
    assert quick.result() == "done"


async def test_a_call_without_memory_for_its_result_is_refused() -> None:
    b = Bench()
    too_large = b.run("word", output=2 * b.pool.arena.size)
    sound = b.run("ab")
    b.processes[0].say(2)

    with pytest.raises(Unavailable, match="shared memory"):
        too_large.result()
    assert sound.result() == 2


async def test_an_abandoned_call_is_not_begun() -> None:
    b = Bench()
    pending = [b.run(str(number), is_slow=True) for number in range(4)]
    pending[2].cancel()
    for _ in range(3):
        b.processes[1].say(1)

    assert b.given(1) == ["0", "1", "3"]
