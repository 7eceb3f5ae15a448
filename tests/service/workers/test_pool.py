"""The pool reports its workers, and tells who gets the next batch and whether anybody can."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from elmo_serve.metrics import Metrics
from elmo_serve.processes.arena import Arena
from elmo_serve.processes.heartbeat import SILENT_SECONDS
from elmo_serve.processes.slot import LONGEST_DELAY, ChildOptions
from elmo_serve.workers.messages import (
    Batch,
    Done,
    Failed,
    ModelInfo,
    Ready,
)
from elmo_serve.workers.pool import WorkerPool, WorkerSlot
from tests.support.clock import FakeClock
from tests.support.engines import TOP
from tests.support.workers import FakeChild

INFO = ModelInfo("fake", "0", "fake", 3, 4, 0, "float32")
LABELS = {"model": "m", "device": "cpu"}


class Worker(FakeChild):
    """Has the report of the worker before it, and lists itself when it is started."""

    def __init__(self, known: Ready | None, started: list[Worker]) -> None:
        super().__init__()
        self.known, self._started = known, started

    def start(self, on_message: Callable[[Any], None], on_exit: Callable[[str], None]) -> None:
        super().start(on_message, on_exit)
        self._started.append(self)


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

    def __init__(
        self,
        count: int = 1,
        batch_tokens: int = 1_000,
        fault: str = "",
        devices: Sequence[str] = ("cpu",),
    ) -> None:
        self.clock, self.metrics, self.scheduler = FakeClock(), Metrics(), Scheduler()
        self.workers: list[Worker] = []  # in the order of their starts
        self.arena = Arena()
        spec = ChildOptions(
            "worker", "the model is loading", self._make, largest_size=batch_tokens, labels=LABELS
        )
        specs = [replace(spec, labels={**LABELS, "device": device}) for device in devices]
        self.pool = WorkerPool(specs * count, self.metrics, self.clock, fault)
        self.pool.start(self.scheduler)

    def _make(self, last: Ready | None) -> Worker:
        return Worker(last, self.workers)

    @property
    def known(self) -> list[Ready | None]:
        """The reports that the workers were given, in the order of their starts."""
        return [worker.known for worker in self.workers]

    @property
    def slot(self) -> WorkerSlot:
        return self.pool.slots[0]

    def submit(self, number: int, padded_tokens: int = 1_000) -> None:
        """Give the first worker a batch."""
        self.pool.submit(self.batch(number, padded_tokens), self.slot)

    def batch(self, number: int, padded_tokens: int = 1_000) -> Batch:
        block = self.arena.acquire(1)
        return Batch(number, (b"[]",), (TOP,), (0,), padded_tokens, padded_tokens, block)

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"elmo_{name}", labels)


async def test_a_pool_reports_its_workers_and_their_batches_in_order() -> None:
    bench = Bench()
    worker = bench.workers[0]
    worker.say(Ready(INFO))
    for number in (1, 2, 3):
        bench.submit(number)
    worker.say(Done(1, 0, 0))
    worker.say(Failed(2, False, "IndexError"))
    bench.submit(4)
    worker.end("exited with status 1")

    assert bench.scheduler.events == [
        *("ready", "done 1", "failed 2"),
        "lost 3 [4]: the worker exited with status 1",
    ]
    assert [batch.id for batch in worker.sent] == [1, 2, 3, 4]
    assert bench.pool.info == INFO


async def test_the_first_worker_of_a_device_is_ready_before_the_others_start() -> None:
    """They are given the form of the products that it has found, so all give the same bits."""
    bench = Bench(2, devices=("cpu", "cuda:0"))
    assert bench.known == [None, None]
    bench.workers[0].end("exited with status 1")
    bench.clock.advance(1)
    assert bench.known == [None] * 3
    found = Ready(INFO, trials={"step": (2, 4)})
    bench.workers[2].say(found)

    assert bench.known == [None] * 3 + [found]
    bench.workers[3].end("exited with status 1")
    bench.clock.advance(1)
    assert bench.known[3:] == [found, found]


async def test_a_worker_that_waits_for_the_first_one_is_not_started_when_the_pool_stops() -> None:
    bench = Bench(2)
    await bench.pool.stop()
    bench.workers[0].say(Ready(INFO))

    assert len(bench.workers) == 1


async def test_metrics_follow_the_state() -> None:
    bench = Bench()
    assert bench.metric("worker_up", **LABELS) == 0
    bench.workers[0].say(Ready(INFO))
    assert bench.metric("worker_up", **LABELS) == 1
    bench.submit(1)
    bench.clock.advance(SILENT_SECONDS)  # the worker hangs

    assert bench.metric("worker_up", **LABELS) == 0
    assert bench.metric("failures_total", reason="worker_hung") == 1
    assert bench.metric("failures_total", reason="worker_lost") == 0
    assert bench.metric("worker_restarts_total", **LABELS) == 0
    bench.clock.advance(1)
    assert bench.metric("worker_restarts_total", **LABELS) == 1


async def test_a_model_with_a_fault_gets_no_worker_and_counts_as_down() -> None:
    bench = Bench(2, fault="cannot be fetched")

    assert await bench.pool.wait_for_start() == bench.pool.reason == "cannot be fetched"
    assert not bench.workers and not bench.pool.can_recover
    assert bench.metric("worker_up", **LABELS) == 0, "the alert on a model without workers"
    await bench.pool.stop()


def ready(*devices: str) -> Bench:
    bench = Bench(devices=devices)
    for worker in list(bench.workers):
        worker.say(Ready(INFO))
    return bench


async def test_an_idle_worker_takes_whatever_is_queued() -> None:
    bench = ready("cpu", "cuda:0")
    first = bench.pool.free(1)
    assert first is not None
    bench.pool.submit(bench.batch(1), first)
    second = bench.pool.free(1)

    assert second not in (None, first)


async def test_a_worker_on_an_accelerator_holds_a_second_batch_if_it_is_full() -> None:
    bench = ready("cuda:0")
    bench.submit(1)
    assert bench.pool.free(999) is None
    assert bench.pool.free(1_000) is bench.slot
    bench.submit(2)

    assert bench.pool.free(1_000) is None
    on_cpu = ready("cpu")
    on_cpu.submit(1)
    assert on_cpu.pool.free(1_000) is None


async def test_the_wait_for_start_is_the_first_worker_that_is_ready() -> None:
    bench = Bench(devices=("cpu", "cuda:0"))
    outcome = asyncio.ensure_future(bench.pool.wait_for_start())
    await asyncio.sleep(0)
    bench.workers[0].end("exited with status 1")
    await asyncio.sleep(0)
    assert not outcome.done()
    bench.workers[1].say(Ready(INFO))

    assert await outcome is None
    assert bench.pool.is_ready
    assert bench.pool.info == INFO


async def test_the_wait_for_start_is_a_reason_when_every_start_fails() -> None:
    bench = Bench(2, devices=("cpu", "cuda:0"))
    for worker in list(bench.workers):
        worker.end("exited with status 1")

    assert await bench.pool.wait_for_start() == "the worker exited with status 1"
    assert bench.pool.reason.startswith("cpu: the worker exited with status 1; cuda:0: ")


async def test_a_worker_that_dies_as_soon_as_it_is_ready_leaves_the_pool_fit() -> None:
    bench = Bench()
    for _ in range(50):
        bench.workers[-1].say(Ready(INFO))
        bench.workers[-1].end("was killed by SIGKILL")
        assert not bench.pool.is_ready
        assert bench.pool.can_recover
        bench.clock.advance(LONGEST_DELAY)

    assert len(bench.workers) == 51
