"""An engine over fake workers in virtual time, and requests for the parts of the scheduler."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle

import numpy as np
import orjson

from elmo_serve.http.deadline import Deadline, Deadlines
from elmo_serve.metrics import Metrics
from elmo_serve.processes.arena import Arena, Vectors
from elmo_serve.processes.clock import Clock
from elmo_serve.processes.slot import Child, ChildOptions
from elmo_serve.scheduling.admission import QueueLimits
from elmo_serve.scheduling.budgets import Budget
from elmo_serve.scheduling.engine import Embedded, Engine
from elmo_serve.scheduling.fair_queue import FairQueue
from elmo_serve.scheduling.request import Request, Sentences
from elmo_serve.selection import Output
from elmo_serve.workers.language_results import Wanted
from elmo_serve.workers.messages import Batch
from elmo_serve.workers.pool import WorkerPool
from tests.support.clock import LoopClock
from tests.support.workers import DIMENSION, GatedWorker, mark

MODEL = "default"
TOP = Output(layers=(2,))
ALL = Output(layers=(0, 1, 2), stacked=True)
MIX = Output(weights=(0.0, 0.0, 0.0), pooling="mean", dtype="float16")

_MOST_TURNS = 1_000_000  # of the event loop, of 0.1 ms: minutes for other threads and processes


@dataclass
class Bench:
    """An engine over fake workers, and every worker that it has had."""

    engine: Engine
    metrics: Metrics
    workers: list[GatedWorker]

    @property
    def pool(self) -> WorkerPool:
        """The workers of the model."""
        return self.engine.pool_of(MODEL)

    @property
    def queue(self) -> FairQueue:
        """The queue of the model."""
        return self.engine.queues[MODEL]

    @property
    def batches(self) -> list[Batch]:
        """All batches that have begun, in the order of the workers."""
        return [batch for worker in self.workers for batch in worker.batches]

    @property
    def computed(self) -> Counter[bytes]:
        """How often each sentence was given to a worker."""
        return Counter(sentence for batch in self.batches for sentence in batch.sentences)

    def ask(
        self,
        sentences: Sequence[list[str]],
        output: Wanted = TOP,
        timeout: float = 60.0,
        client: str = "",
        *,
        is_bulk: bool = False,
    ) -> asyncio.Task[Embedded]:
        """Send a request with its deadline."""
        texts = [orjson.dumps(sentence) for sentence in sentences]
        lengths = [len(sentence) for sentence in sentences]
        deadlines = Deadlines(self.metrics.failures.labels("deadline"))

        async def call() -> Embedded:
            async with Deadline(deadlines, timeout) as deadline:
                deadline.overdue = "The vectors were not computed within {:g} s."
                return await self.engine.embed(
                    texts, lengths, [output] * len(texts), timeout, client, is_bulk=is_bulk
                )

        return asyncio.ensure_future(call())

    def count(self, name: str, **labels: str) -> float:
        """Return the value of a metric, of the model if it has that label; 0 if there is none."""
        value = self.metrics.registry.get_sample_value
        return value(name, labels) or value(name, {**labels, "model": MODEL}) or 0.0

    def everything_given_back(self) -> None:
        """Assert that no queue, budget or table holds anything of a request that has ended."""
        admission = self.engine.admission
        assert (self.queue.sentences, self.queue.tokens) == (0, 0)
        assert (self.engine.requests, admission.outstanding, self.engine.answers.used) == (0, 0, 0)
        assert not admission._interactive._by_client
        assert not admission._bulk._by_client


@asynccontextmanager
async def bench(
    *makes: Callable[[], GatedWorker],
    budget: int = 64,
    queue_tokens: int = 100_000,
    answer_bytes: int = 1 << 30,
    clock: Clock | None = None,
    device: str = "cpu",
) -> AsyncIterator[Bench]:
    """Start an engine with a worker slot for each of `makes`, which return its workers in turn.

    `device` may name one for each of them, with commas between. At the end all requests must have
    ended, and everything they held must be given back.
    """
    workers: list[GatedWorker] = []

    def kept(make: Callable[[], GatedWorker]) -> Callable[[], GatedWorker]:
        def made() -> GatedWorker:
            workers.append(make())
            return workers[-1]

        return made

    metrics, clock = Metrics(), clock or LoopClock()
    specs = [
        child_options(kept(make), budget, device=own)
        for make, own in zip(makes or (GatedWorker,), cycle(device.split(",")), strict=False)
    ]
    engine = Engine(
        {MODEL: WorkerPool(specs, metrics, clock)},
        Arena(),
        QueueLimits(queue_tokens, answer_bytes),
        metrics,
        clock,
    )
    engine.start()
    found = Bench(engine, metrics, workers)
    await found.pool.wait_for_start()
    yield found
    await turns()  # sentences of long requests are withdrawn in slices
    found.everything_given_back()
    await found.pool.stop()


def child_options(
    make: Callable[[], Child],
    budget: int,
    model: str = MODEL,
    device: str = "cpu",
) -> ChildOptions:
    """Return a slot for a worker."""
    labels = {"model": model, "device": device}
    return ChildOptions(
        "worker",
        "the model is loading",
        lambda _: make(),
        largest_size=budget,
        labels=labels,
    )


async def turns(number: int = 50) -> None:
    """Let the event loop turn, so that everything happens that needs no time."""
    for _ in range(number):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop turn, and time pass, until a condition holds."""
    for _ in range(_MOST_TURNS):
        if condition():
            return
        await asyncio.sleep(0.0001)
    raise AssertionError("this never happened")


def made_of(text: str, count: int) -> list[list[str]]:
    """Return sentences of one to seven tokens; no two are equal."""
    return [[f"{text}{index}"] * (1 + index % 7) for index in range(count)]


def same_length(text: str, count: int, tokens: int = 6) -> list[list[str]]:
    """Return sentences of so many tokens; no two are equal."""
    return [[f"{text}{index}"] * tokens for index in range(count)]


def check(embedded: Embedded, sentences: Sequence[list[str]], output: Output = TOP) -> None:
    """Assert that each sentence got its own vectors."""
    assert len(embedded.vectors) == len(sentences)
    for vectors, sentence in zip(embedded.vectors, sentences, strict=True):
        array = vectors.numpy()
        assert array.shape == output.shape(len(sentence), DIMENSION)
        assert (array == mark(orjson.dumps(sentence))).all()


def texts(sentences: Iterable[list[str]]) -> set[bytes]:
    """Return sentences as workers get them."""
    return {orjson.dumps(sentence) for sentence in sentences}


OUTPUT = Output(layers=(0,), stacked=True)


def request_of(
    lengths: Sequence[int],
    *,
    now: float = 0.0,
    spacing: float = 1.0,
    budget: Budget | None = None,
    on_end: Callable[[], None] = lambda: None,
    is_bulk: bool = False,
) -> Request:
    """Return a request with sentences of these lengths; no two are equal."""
    texts = [b"%d" % index for index in range(len(lengths))]
    sentences = Sentences(texts, lengths, [OUTPUT] * len(lengths))
    held = (budget or budget_of()).hold("", sentences.cost)
    return Request(sentences, held, now, spacing, on_end, is_bulk)


def budget_of() -> Budget:
    """Return a budget that is never used up."""
    return Budget(1 << 40, "tokens", "")


def vectors_of(number: float) -> Vectors:
    """Return the vectors of one token: one number in shared memory."""
    block = Arena().acquire(4)
    block.array.view(np.float32)[0] = number
    return Vectors(block, 0, (1,), "float32")
