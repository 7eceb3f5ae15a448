"""The simulated worker: the engine sees the same times as from any other worker."""

from __future__ import annotations

import asyncio
import random

import pytest

from elmo_serve.capacity.batch_time import BatchTime
from elmo_serve.capacity.simulated_worker import SimulatedWorker
from elmo_serve.metrics import Metrics
from elmo_serve.scheduling.admission import Limits
from elmo_serve.scheduling.engine import Engine
from elmo_serve.workers.pool import WorkerPool
from elmo_serve.workers.shared_memory import SharedMemoryPool
from elmo_serve.workers.watchdog import Timeouts
from elmo_serve.workers.worker_slot import WorkerSpec
from tests.support.engines import MIX, bench
from tests.support.gated_worker import GatedWorker
from tests.support.virtual_time import LoopClock, in_virtual_time

TOP_LENGTH = 6
PER_TOKEN = 1e-3


def arrivals() -> list[tuple[float, list[list[str]]]]:
    source, at, found = random.Random(5), 0.0, []
    for number in range(200):
        at += source.expovariate(15.0)
        sentences = source.randint(1, 8)
        found.append((at, [[f"{number}.{place}"] * TOP_LENGTH for place in range(sentences)]))
    return found


@in_virtual_time
async def test_a_batch_takes_its_time_as_with_a_gated_worker() -> None:
    """The same arrivals at engines over both workers have the same latencies."""
    found: list[list[float]] = []
    async with bench(lambda: GatedWorker(PER_TOKEN)) as gated:
        found.append(await latencies(gated.engine))
    clock, metrics = LoopClock(), Metrics()

    def make() -> SimulatedWorker:
        return SimulatedWorker(BatchTime(0.0, PER_TOKEN), 64)

    spec = WorkerSpec("simulated", 64, make, Timeouts(), "")
    pool = WorkerPool([spec], metrics, clock)
    engine = Engine({"": pool}, SharedMemoryPool(), Limits(100_000, 1 << 30), metrics, clock)
    engine.start()
    await engine.pool.first_outcome()
    found.append(await latencies(engine))
    await engine.stop()

    gated_latencies, simulated = found
    assert len(simulated) == 200 and max(simulated) > 3 * min(simulated), "they waited"
    assert simulated == pytest.approx(gated_latencies, rel=0.05)


async def latencies(engine: Engine) -> list[float]:
    loop = asyncio.get_running_loop()
    start = loop.time()

    async def ask(at: float, sentences: list[list[str]]) -> float:
        await asyncio.sleep(start + at - loop.time())
        texts = [each[0].encode().join([b'["', b'"]']) for each in sentences]
        await engine.embed(texts, [len(each) for each in sentences], MIX, 60.0)
        return loop.time() - start - at

    return await asyncio.gather(*(ask(*each) for each in arrivals()))
