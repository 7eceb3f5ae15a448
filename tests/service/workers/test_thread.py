"""A worker in a thread speaks the protocol, and what it is left behind with stays its own."""

import asyncio
from pathlib import Path

import numpy as np
import orjson

from elmo_serve.output import Output
from elmo_serve.workers.messages import Batch, Done, Message, Ready, RunnerSettings
from elmo_serve.workers.shared_memory import Bytes, SharedMemoryPool, view
from elmo_serve.workers.thread import ThreadWorker
from tests.support.checkpoints import write_pair

TOP = Output(layers=(2,))
DIMENSION = 8


class Front:
    """What a front hears of a thread."""

    def __init__(self, model: Path) -> None:
        self.segments = SharedMemoryPool()
        self.said: asyncio.Queue[Message] = asyncio.Queue()
        self.ended: list[str] = []
        settings = RunnerSettings(str(model), "cpu", "float32", 0, 0, False, 1, 64, "info", "text")
        self.worker = ThreadWorker(settings, self.segments)

    async def start(self) -> None:
        self.worker.start(self.said.put_nowait, self.ended.append)
        assert isinstance(await self.heard(), Ready)

    async def heard(self) -> Message:
        return await asyncio.wait_for(self.said.get(), 60)

    def batch(self, count: int, tokens: int) -> tuple[Batch, Bytes]:
        sentences = [[f"{row}-{column}" for column in range(tokens)] for row in range(count)]
        size = TOP.size(tokens, DIMENSION)
        segment, array = self.segments.acquire(count * size)
        offsets = tuple(range(0, count * size, size))
        texts = tuple(map(orjson.dumps, sentences))
        cost = count * (tokens + 2)
        return Batch(1, texts, (TOP,) * count, offsets, cost, cost, segment), array


async def test_a_batch_is_written_where_it_was_asked_for(tmp_path: Path) -> None:
    front = Front(write_pair(tmp_path))
    await front.start()
    batch, array = front.batch(3, 2)
    front.worker.submit(batch)

    assert isinstance(await front.heard(), Done)
    written = view(array, 0, (3, 2, DIMENSION), "float32")
    assert np.isfinite(written).all()
    assert written.any(-1).all()
    await front.worker.stop()
    assert front.ended == ["stopped"]


async def test_what_an_abandoned_thread_may_still_write_to_is_not_lent_again(
    tmp_path: Path,
) -> None:
    front = Front(write_pair(tmp_path))
    await front.start()
    batch, array = front.batch(2_000, 40)
    size = len(array)
    front.worker.submit(batch)
    await asyncio.sleep(0.3)  # it has begun, and is far from done
    front.worker.kill()
    assert front.ended == ["was abandoned"]
    del array

    segment, other = front.segments.acquire(size)
    other[:] = 9
    await front.worker.stop()

    assert segment.id != batch.segment.id
    assert (other == 9).all()
    await asyncio.sleep(0)
    assert front.said.empty(), "it is not heard any more"
    assert front.segments.acquire(size)[0].id == batch.segment.id


async def test_what_an_abandoned_thread_had_not_begun_is_not_run(tmp_path: Path) -> None:
    front = Front(write_pair(tmp_path))
    await front.start()
    first, _ = front.batch(500, 40)
    second, untouched = front.batch(1, 2)
    front.worker.submit(first)
    front.worker.submit(second)
    await asyncio.sleep(0)
    front.worker.kill()
    await front.worker.stop()

    assert not untouched.any()
