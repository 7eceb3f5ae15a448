"""A simulation of replicas under a load: the service's own scheduler, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from elmo_serve.capacity.batch_time import BatchTime
from elmo_serve.capacity.simulated_worker import SimulatedWorker
from elmo_serve.capacity.virtual_time import LoopClock, VirtualLoop
from elmo_serve.errors import ClientOverShare, DeadlineExceeded, Overloaded
from elmo_serve.load_test.latencies import Latencies
from elmo_serve.metrics import Metrics
from elmo_serve.output import Output
from elmo_serve.scheduling.admission import Limits
from elmo_serve.scheduling.engine import Engine
from elmo_serve.workers.pool import WorkerPool
from elmo_serve.workers.shared_memory import SharedMemoryPool
from elmo_serve.workers.watchdog import Timeouts
from elmo_serve.workers.worker_slot import WorkerSpec

_OUTPUT = Output(layers=(0,), pooling="mean")  # the smallest answer: nothing is computed
_ANSWER_BYTES = 1 << 40
_PATIENT = Timeouts(batch=1e9)
_WARM_UP = 0.1  # share of the requests at the start that is not counted: the queue is empty then

Lengths = Callable[[random.Random], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Replica:
    """One server: its workers, their batch time, and its limits in tokens.

    `overhead` are seconds of a request outside of queue and worker: parsing, encoding, network.
    """

    batch_time: BatchTime
    batch_tokens: int
    workers: int = 1
    queue_tokens: int = 1 << 40
    overhead: float = 0.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Poisson arrivals of `rate` requests/s; `lengths` draws the tokens of the sentences of one."""

    rate: float
    lengths: Lengths
    timeout: float = 60.0


@dataclass(slots=True)
class Simulated:
    """The requests of a simulation after its warm-up. `busy` is the mean share of busy workers."""

    sent: int = 0
    answered: int = 0
    tokens: int = 0
    refused: int = 0
    late: int = 0
    busy: float = 0.0
    latencies: Latencies = field(default_factory=Latencies)


def simulate(
    replica: Replica, count: int, traffic: Traffic, requests: int = 10_000, seed: int = 1
) -> Simulated:
    """Send requests to `count` replicas, each to one with the fewest that it has not answered.

    All sentences differ: none is shared between requests. A refused request is not sent again.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_Simulation(replica, count, traffic, requests, seed).run())


class _Simulation:
    def __init__(
        self, replica: Replica, count: int, traffic: Traffic, requests: int, seed: int
    ) -> None:
        self._replica = replica
        self._traffic = traffic
        self._requests = requests
        self._arrivals = random.Random(seed)  # alone, as that of `open_loop`
        self._source = random.Random(seed + 1)
        self._workers: list[SimulatedWorker] = []
        self._engines = [self._engine() for _ in range(count)]
        self._in_flight = [0] * count
        self._found = Simulated()

    def _engine(self) -> Engine:
        replica, metrics, clock = self._replica, Metrics(), LoopClock()
        spec = WorkerSpec("simulated", replica.batch_tokens, self._worker, _PATIENT)
        pool = WorkerPool([spec] * replica.workers, metrics, clock)
        limits = Limits(replica.queue_tokens, _ANSWER_BYTES)
        return Engine({"": pool}, SharedMemoryPool(), limits, metrics, clock)

    def _worker(self) -> SimulatedWorker:
        worker = SimulatedWorker(self._replica.batch_time, self._replica.batch_tokens)
        self._workers.append(worker)
        return worker

    async def run(self) -> Simulated:
        loop = asyncio.get_running_loop()
        for engine in self._engines:
            engine.start()
            await engine.pool.first_outcome()
        start = due = loop.time()
        async with asyncio.TaskGroup() as group:
            for number in range(self._requests):
                due += self._arrivals.expovariate(self._traffic.rate)
                await asyncio.sleep(due - loop.time())
                group.create_task(self._send(number))
        busy = sum(worker.busy_seconds for worker in self._workers)
        self._found.busy = busy / (loop.time() - start) / len(self._workers)
        for engine in self._engines:
            await engine.stop()
        return self._found

    async def _send(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        lengths = self._traffic.lengths(self._source)
        sentences = [b"%d %d" % (number, place) for place in range(len(lengths))]
        fewest = min(self._in_flight)
        chosen = self._source.choice(
            [n for n, each in enumerate(self._in_flight) if each == fewest]
        )
        is_counted = number >= _WARM_UP * self._requests
        self._found.sent += is_counted
        start = loop.time()
        self._in_flight[chosen] += 1
        try:
            await self._engines[chosen].embed(sentences, lengths, _OUTPUT, self._traffic.timeout)
        except (Overloaded, ClientOverShare):
            self._found.refused += is_counted
        except DeadlineExceeded:
            self._found.late += is_counted
        else:
            if is_counted:
                self._found.answered += 1
                self._found.tokens += sum(lengths)
                self._found.latencies.record(loop.time() - start + self._replica.overhead)
        finally:
            self._in_flight[chosen] -= 1
