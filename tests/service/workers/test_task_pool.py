"""A pool does every task once, in parts or whole, and refuses one that two processes die of."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from elmo_serve.errors import Unavailable
from elmo_serve.metrics import Metrics
from elmo_serve.workers.child_process import Parent
from elmo_serve.workers.shared_memory import SharedMemoryPool
from elmo_serve.workers.task_messages import Part, Started
from elmo_serve.workers.task_pool import TaskKind, TaskPool
from elmo_serve.workers.watchdog import Timeouts


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


KIND = TaskKind("json", "letter process", work, "No letters", Timeouts(), minimum_size=1)


@asynccontextmanager
async def pool(count: int) -> AsyncIterator[tuple[TaskPool[bytes], Metrics]]:
    metrics = Metrics()
    found: TaskPool[bytes] = TaskPool(KIND, count, SharedMemoryPool(), metrics)
    found.start()
    try:
        yield found, metrics
    finally:
        await found.stop()


@pytest.mark.parametrize("count", [1, 2])
async def test_every_task_gets_its_own_parts_and_result(count: int) -> None:
    async with pool(count) as (tasks, _):
        words = [bytes([65 + n]) * (n + 1) for n in range(20)]
        pending = [tasks.submit(word, 1, first=n % 3 == 0) for n, word in enumerate(words)]
        lengths = await asyncio.gather(*(one.future for one in pending))

        assert lengths == list(range(1, 21))
        assert [one.items for one in pending] == [[word[:1], word[1:]] for word in words]


async def test_a_task_that_kills_its_process_twice_is_refused_and_the_others_are_done() -> None:
    async with pool(1) as (tasks, metrics):
        deadly, sound = tasks.submit(b"", 1), tasks.submit(b"ab", 1)

        with pytest.raises(Unavailable, match="No letters: the letter process exited with status"):
            await deadly.future
        assert await sound.future == 2
        lost = metrics.registry.get_sample_value("elmo_failures_total", {"reason": "json_lost"})
        assert lost == 2
