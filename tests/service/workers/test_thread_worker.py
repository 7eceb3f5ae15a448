"""A worker in a thread speaks the protocol, and an abandoned thread harms nobody."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import numpy as np
import orjson

from elmo_serve.output import Output
from elmo_serve.workers.messages import (
    Batch,
    Done,
    LoadFailed,
    Message,
    ModelInfo,
    Ready,
    RunnerSettings,
)
from elmo_serve.workers.shared_memory import Bytes, SharedMemoryPool, view
from elmo_serve.workers.thread_worker import BatchRunner, Load, ThreadWorker, load_model
from tests.support.checkpoints import write_pair

TOP = Output(layers=(2,))
DIMENSION = 8
INFO = ModelInfo("gated", "0", "gated", 3, DIMENSION, 0, "float32")


class GatedRunner:
    """A model that begins a batch, waits for the test, and then writes ones."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.gate = threading.Event()
        self.ran: list[int] = []

    def load(self, _: RunnerSettings) -> tuple[BatchRunner, Message]:
        return self, Ready(INFO)

    def run(self, batch: Batch, memory: Bytes) -> Message:
        self.ran.append(batch.id)
        self.begun.release()
        self.gate.wait()
        memory[:] = 1
        return Done(batch.id, 0.0, 0, 0)


class Front:
    """The server's side of a thread."""

    def __init__(self, model: Path, load: Load = load_model) -> None:
        self.segments = SharedMemoryPool()
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.reasons: list[str] = []
        settings = RunnerSettings(str(model), "cpu", "float32", 0, 0, 1, 64, "info", "text")
        self.worker = ThreadWorker(settings, self.segments, load)

    async def start(self) -> Message:
        """Start the thread and return its first message."""
        self.worker.start(self.messages.put_nowait, self.reasons.append)
        return await self.messages.get()

    def batch(self, count: int, tokens: int, number: int = 1) -> tuple[Batch, Bytes]:
        sentences = [[f"{row}-{column}" for column in range(tokens)] for row in range(count)]
        size = TOP.size(tokens, DIMENSION)
        segment, array = self.segments.acquire(count * size)
        offsets = tuple(range(0, count * size, size))
        texts = tuple(map(orjson.dumps, sentences))
        cost = count * (tokens + 2)
        return Batch(number, texts, (TOP,) * count, offsets, cost, cost, segment), array


async def test_a_batch_is_written_at_its_offsets(tmp_path: Path) -> None:
    front = Front(write_pair(tmp_path))
    assert isinstance(await front.start(), Ready)
    batch, array = front.batch(3, 2)
    front.worker.submit(batch)

    assert isinstance(await front.messages.get(), Done)
    written = view(array, 0, (3, 2, DIMENSION), "float32")
    assert np.isfinite(written).all()
    assert written.any(-1).all()
    await front.worker.stop()
    assert front.reasons == ["stopped"]


async def test_a_model_that_cannot_be_loaded_is_reported(tmp_path: Path) -> None:
    front = Front(tmp_path / "nowhere")

    message = await front.start()
    assert isinstance(message, LoadFailed)
    assert "nowhere" in message.reason
    await front.worker.stop()
    assert front.reasons == ["stopped"]


async def test_a_model_that_raises_ends_the_thread_with_a_reason(tmp_path: Path) -> None:
    class Raising:
        def run(self, batch: Batch, memory: Bytes) -> Message:
            raise RuntimeError("the device is gone")

    front = Front(tmp_path, lambda _: (Raising(), Ready(INFO)))
    await front.start()
    batch, _array = front.batch(1, 2)
    front.worker.submit(batch)
    await front.worker.stop()
    await asyncio.sleep(0)

    assert front.reasons == ["ended: RuntimeError: the device is gone"]


async def test_memory_of_an_abandoned_thread_is_not_given_to_another_batch(tmp_path: Path) -> None:
    runner = GatedRunner()
    front = Front(tmp_path, runner.load)
    await front.start()
    batch, array = front.batch(10, 4)
    size = len(array)
    front.worker.submit(batch)
    await asyncio.to_thread(runner.begun.acquire)
    front.worker.kill()
    assert front.reasons == ["was abandoned"]
    del array

    segment, other = front.segments.acquire(size)
    other[:] = 9
    runner.gate.set()
    await front.worker.stop()

    assert segment.id != batch.segment.id
    assert (other == 9).all()
    await asyncio.sleep(0)
    assert front.messages.empty(), "a message of an abandoned thread was passed on"
    assert front.segments.acquire(size)[0].id == batch.segment.id


async def test_an_abandoned_thread_begins_no_further_batch(tmp_path: Path) -> None:
    runner = GatedRunner()
    front = Front(tmp_path, runner.load)
    await front.start()
    batches = [front.batch(1, 2, number) for number in (1, 2)]
    for batch, _ in batches:
        front.worker.submit(batch)
    await asyncio.to_thread(runner.begun.acquire)
    front.worker.kill()
    runner.gate.set()
    await front.worker.stop()

    assert runner.ran == [1]
