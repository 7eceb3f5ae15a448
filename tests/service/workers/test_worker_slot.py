"""A worker slot keeps the pace and the batch size of its device, and reports to the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from elmo_serve.metrics import Metrics
from elmo_serve.workers.messages import (
    Batch,
    Done,
    Failed,
    LoadFailed,
    Message,
    ModelInfo,
    Ready,
)
from elmo_serve.workers.pool import WorkerPool
from elmo_serve.workers.shared_memory import SharedMemoryPool
from elmo_serve.workers.watchdog import Timeouts
from elmo_serve.workers.worker_slot import WorkerSlot, WorkerSpec
from tests.support.clock import FakeClock

INFO = ModelInfo("fake", "0", "fake", 3, 4, 0, "float32")


class FakeWorker:
    """A worker that does only what a test makes it do."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def start(self, on_message: Callable[[Message], None], on_exit: Callable[[str], None]) -> None:
        self.say, self.end = on_message, on_exit

    def submit(self, batch: Batch) -> None:
        self.batches.append(batch)

    def kill(self) -> None:
        self.end("was killed by SIGKILL")

    async def stop(self) -> None:
        pass


@dataclass
class Scheduler:
    """Records what a slot reports."""

    events: list[str] = field(default_factory=list)

    def on_ready(self, ready: Ready) -> None:
        self.events.append("ready")

    def on_done(self, batch: Batch, done: Done, slot: WorkerSlot) -> None:
        self.events.append(f"done {batch.id}")

    def on_failed(self, batch: Batch, failed: Failed, slot: WorkerSlot) -> None:
        self.events.append(f"failed {batch.id}")

    def on_lost(self, running: Batch | None, waiting: Sequence[Batch], reason: str) -> None:
        ids = [batch.id for batch in waiting]
        self.events.append(f"lost {running and running.id} {ids}: {reason}")


class Bench:
    """A pool of fake workers on a fake clock."""

    def __init__(self, count: int = 1, batch_tokens: int = 1_000) -> None:
        self.clock, self.metrics, self.scheduler = FakeClock(), Metrics(), Scheduler()
        self.workers: list[FakeWorker] = []
        self.memory = SharedMemoryPool()
        timeouts = Timeouts(load=100, first_batch=50, batch=5)
        spec = WorkerSpec("cpu", batch_tokens, self._make, timeouts, remake=self._remake)
        self.known: list[ModelInfo] = []
        specs = [spec] * count
        self.pool = WorkerPool(specs, self.metrics, self.clock)
        self.slot = self.pool.slots[0]
        self.pool.start(self.scheduler)

    def _make(self) -> FakeWorker:
        self.workers.append(FakeWorker())
        return self.workers[-1]

    def _remake(self, known: ModelInfo) -> FakeWorker:
        self.known.append(known)
        return self._make()

    def batch(self, number: int, padded_tokens: int = 1_000) -> Batch:
        segment, _ = self.memory.acquire(1)
        return Batch(number, (), (), (), padded_tokens, padded_tokens, segment)

    def run(self, seconds: float, padded_tokens: int = 1_000) -> None:
        """Let the first worker take so long for a batch."""
        self.slot.submit(self.batch(1, padded_tokens))
        self.clock.advance(seconds)
        self.workers[0].say(Done(1, seconds, 0, 0))

    def metric(self, name: str, **labels: str) -> float | None:
        value = self.metrics.registry.get_sample_value
        own = value(f"elmo_{name}", {"model": "", **labels})  # of the slot's model
        return value(f"elmo_{name}", labels) if own is None else own


async def test_a_slot_reports_its_worker_and_its_batches_in_order() -> None:
    bench = Bench()
    worker = bench.workers[0]
    worker.say(Ready(INFO))
    for number in (1, 2, 3):
        bench.slot.submit(bench.batch(number))
    worker.say(Done(1, 0.1, 0, 0))
    worker.say(Failed(2, 0.1, False, "IndexError"))
    bench.slot.submit(bench.batch(4))
    worker.end("exited with status 1")

    assert bench.scheduler.events == [
        *("ready", "done 1", "failed 2"),
        "lost 3 [4]: the worker exited with status 1",
    ]
    assert [batch.id for batch in worker.batches] == [1, 2, 3, 4]
    assert bench.slot.info == INFO


async def test_the_next_worker_is_told_the_description_that_the_lost_one_gave() -> None:
    bench = Bench()
    bench.workers[0].end("exited with status 1")
    bench.clock.advance(1)
    assert not bench.known
    bench.workers[1].say(Ready(INFO))
    bench.workers[1].end("exited with status 1")
    bench.clock.advance(1)

    assert bench.known == [INFO]


async def test_metrics_follow_the_state() -> None:
    bench = Bench()
    bench.workers[0].say(Ready(INFO))
    assert bench.metric("worker_up", device="cpu") == 1
    bench.slot.submit(bench.batch(1))
    bench.clock.advance(50)  # the worker hangs

    assert bench.metric("worker_up", device="cpu") == 0
    assert bench.metric("failures_total", reason="worker_hung") == 1
    bench.clock.advance(1)
    assert bench.metric("worker_restarts_total", device="cpu") == 1


async def test_the_time_left_is_estimated_from_the_last_full_batch() -> None:
    bench = Bench()
    bench.workers[0].say(Ready(INFO, seconds_per_token=1e-3))
    assert bench.slot.full_seconds == pytest.approx(1.0)
    bench.run(seconds=2.0)
    assert bench.slot.seconds == 2.0
    assert bench.slot.full_seconds == pytest.approx(2.0)
    bench.run(seconds=9.0, padded_tokens=10)  # a short batch is bound by latency
    assert bench.slot.full_seconds == pytest.approx(2.0)

    bench.slot.submit(bench.batch(3, 500))
    bench.clock.advance(0.25)
    assert bench.slot.seconds_left == pytest.approx(0.75)
    bench.clock.advance(2)
    assert bench.slot.seconds_left == 0


async def test_a_batch_without_device_memory_halves_the_budget() -> None:
    bench = Bench()
    bench.workers[0].say(Ready(INFO))
    bench.slot.submit(bench.batch(1, 1_000))
    bench.workers[0].say(Failed(1, 0.1, True, "OutOfMemoryError"))

    assert bench.slot.budget == 500
    assert bench.metric("batch_budget_tokens", device="cpu") == 500


async def test_the_reason_of_a_failed_load_is_kept() -> None:
    bench = Bench()
    bench.workers[0].say(LoadFailed("no such model"))
    bench.workers[0].end("exited with status 0")

    assert bench.slot.start_failure == "no such model"
    assert await bench.pool.first_outcome() == "no such model"
