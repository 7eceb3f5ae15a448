"""Processes that write JSON may die, hang or be late, and nobody gets another's bytes for it."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing.popen_spawn_posix  # noqa: F401  # not when files can no longer be opened
import os
import resource
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import orjson
import pytest

from elmo_serve.errors import Unavailable
from elmo_serve.http.parsing import RequestLimits
from elmo_serve.metrics import Metrics
from elmo_serve.workers.json_pool import JsonWorkerPool
from elmo_serve.workers.shared_memory import SharedMemoryPool, Vectors, view
from elmo_serve.workers.watchdog import Timeouts
from tests.support.processes import children, is_alive

LIMITS = RequestLimits(10_000, 1_000)
HASTY = Timeouts(first_batch=0.5, batch=0.5)


@dataclass
class Bench:
    """Some writers, and what they are given."""

    writers: JsonWorkerPool
    segments: SharedMemoryPool
    metrics: Metrics

    def vectors(self, rows: int, number: float = 0.0) -> Vectors:
        segment, array = self.segments.acquire(rows * 16)
        view(array, 0, (rows, 4), "float32")[...] = number
        return Vectors(array, segment, 0, (rows, 4), "float32")

    async def written(self, *vectors: Vectors) -> list[object]:
        pieces = await asyncio.wait_for(self.writers.write(vectors), 30)
        return list(orjson.loads(b"[" + b"".join(pieces) + b"]"))

    def count(self, reason: str) -> float:
        labels = {"reason": reason}
        return self.metrics.registry.get_sample_value("elmo_failures_total", labels) or 0.0


def pids() -> list[int]:
    return children(os.getpid())["json"]


@asynccontextmanager
async def bench(count: int = 1, patience: Timeouts = HASTY) -> AsyncIterator[Bench]:
    segments, metrics = SharedMemoryPool(), Metrics()
    writers = JsonWorkerPool(count, segments, metrics, patience)
    writers.start()
    made = Bench(writers, segments, metrics)
    await asyncio.gather(*(made.written(made.vectors(1)) for _ in range(8)))  # it is up
    await until(lambda: len(pids()) == count)
    yield made
    await writers.stop()


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this never came"
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_lost_process_is_replaced_and_its_task_done_again(number: signal.Signals) -> None:
    async with bench() as b:
        (struck,) = pids()
        os.kill(struck, number)
        tasks = [asyncio.ensure_future(b.written(b.vectors(2, n))) for n in range(5)]

        for n, task in enumerate(tasks):
            assert await task == [[[float(n)] * 4] * 2]
        assert not is_alive(struck)
        reason = "json_hung" if number == signal.SIGSTOP else "json_lost"
        assert b.count(reason) == 1
        assert sum(map(b.count, ("json_lost", "json_hung"))) == 1


async def test_a_request_is_parsed_though_its_process_hangs() -> None:
    async with bench() as b:
        (struck,) = pids()
        sentences = [[f"w{number}"] * 3 for number in range(4_000)]
        body = b.writers.body()
        body.add(orjson.dumps({"sentences": sentences}))
        os.kill(struck, signal.SIGSTOP)
        parsed = await asyncio.wait_for(b.writers.parse(body, LIMITS), 30)

        assert [orjson.loads(sentence) for sentence in parsed.sentences] == sentences


async def test_a_task_that_two_processes_are_lost_over_is_refused_for_now() -> None:
    async with bench() as b:
        small = b.vectors(1)
        beyond = Vectors(small.array, small.segment, 0, (1_000_000, 4), "float32")
        task = asyncio.ensure_future(b.written(beyond))
        behind = asyncio.ensure_future(b.written(b.vectors(1, 7.0)))
        with pytest.raises(Unavailable) as caught:
            await task

        assert caught.value.retry_after == 1
        assert await behind == [[[7.0] * 4]]
        assert b.count("json_lost") == 2


async def test_one_process_that_hangs_does_not_hold_up_the_others() -> None:
    async with bench(2, Timeouts(first_batch=5, batch=5)) as b:
        os.kill(pids()[0], signal.SIGSTOP)
        stuck = [asyncio.ensure_future(b.written(b.vectors(1))) for _ in range(4)]
        start = time.monotonic()
        await asyncio.wait(stuck, return_when=asyncio.FIRST_COMPLETED)
        for n in range(10):
            assert await b.written(b.vectors(1, n)) == [[[float(n)] * 4]]

        assert time.monotonic() - start < 4
        assert await asyncio.gather(*stuck) == [[[[0.0] * 4]]] * 4


async def test_what_a_late_process_may_still_write_to_is_not_lent_again() -> None:
    """A request runs out of time; its text comes later, into memory that must still be its own."""
    async with bench(patience=Timeouts(first_batch=60, batch=60)) as b:
        (stopped,) = pids()
        vectors = b.vectors(100, 1.0)
        os.kill(stopped, signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(b.writers.write([vectors]), 0.2)
        gc.collect()  # the tasks that were cancelled hold their frames
        lent = [b.segments.acquire(60_000) for _ in range(40)]  # more than there are
        for _, array in lent:
            array[:] = 9
        os.kill(stopped, signal.SIGCONT)
        assert await b.written(b.vectors(1, 2.0)) == [[[2.0] * 4]]

        assert all((array == 9).all() for _, array in lent)
        before = b.segments.size
        del lent, vectors, array
        for _ in range(3):  # and then it comes back
            held = [b.segments.acquire(60_000) for _ in range(40)]
            del held
        assert b.segments.size == before


async def test_stopping_while_a_process_is_replaced_leaves_none() -> None:
    async with bench() as b:
        os.kill(pids()[0], signal.SIGKILL)
        await until(lambda: b.count("json_lost") == 1)
        await b.writers.stop()
        await asyncio.sleep(0.5)

        assert pids() == []


async def test_where_no_process_starts_it_is_said_and_where_one_does_again_it_is_written() -> None:
    async with bench() as b:
        (struck,) = pids()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # what is open stays so
        try:
            os.kill(struck, signal.SIGKILL)
            with pytest.raises(Unavailable):
                await b.written(b.vectors(1))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        assert await b.written(b.vectors(1)) == [[[0.0] * 4]]
