"""How fast answers become JSON: tokens a second and core, at the original's width.

    python -m benchmarks.json_answers [--seconds 5] [--rounds 3]

Vectors (3, 40, 1024) of normally distributed float32, 20 sentences an answer, written as the server
writes them: by processes of its own, from shared memory into shared memory. A core is counted as
processor time of those processes and of this one, which stands for the front. Beside it what orjson
does by itself with the same arrays in one process, in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.machine import describe
from elmo_serve.http.media_types import json_text
from elmo_serve.metrics import Metrics
from elmo_serve.workers.json_pool import JsonWorkerPool
from elmo_serve.workers.shared_memory import SharedMemoryPool, Vectors, view
from tests.support.processes import children, processor_seconds

_SHAPE = (3, 40, 1024)  # layers, tokens, width
_SENTENCES = 20
_GOAL = 12_000  # tokens a second and core


@dataclass(frozen=True, slots=True)
class Rate:
    """Tokens a second by the clock, and by processor time."""

    by_clock: float
    by_core: float


def alone(vectors: Sequence[Vectors], seconds: float) -> Rate:
    """Write in this process."""
    arrays = [each.numpy() for each in vectors]
    count, began, used = 0, time.perf_counter(), time.process_time()
    while (passed := time.perf_counter() - began) < seconds:
        for _ in json_text.texts(arrays):
            pass
        count += len(vectors) * _SHAPE[1]
    return Rate(count / passed, count / (time.process_time() - used))


async def by_writers(writers: JsonWorkerPool, vectors: Sequence[Vectors], seconds: float) -> Rate:
    """Write as the server does, always with another answer that waits."""
    processes = [os.getpid(), *children(os.getpid())["json"]]
    count = 0

    async def client() -> None:
        nonlocal count
        while time.perf_counter() - began < seconds:
            await writers.write(vectors)
            count += len(vectors) * _SHAPE[1]

    began, used = time.perf_counter(), sum(map(processor_seconds, processes))
    await asyncio.gather(client(), client())
    used = sum(map(processor_seconds, processes)) - used
    return Rate(count / (time.perf_counter() - began), count / used)


async def measure(seconds: float, rounds: int) -> tuple[list[Rate], list[Rate]]:
    """Return the rates of orjson alone and of the service's processes, in turns."""
    segments = SharedMemoryPool()
    source = np.random.default_rng(7)
    size = int(np.prod(_SHAPE)) * 4
    vectors = []
    for _ in range(_SENTENCES):
        segment, array = segments.acquire(size)
        view(array, 0, _SHAPE, "float32")[...] = source.standard_normal(_SHAPE, np.float32)
        vectors.append(Vectors(array, segment, 0, _SHAPE, "float32"))
    writers = JsonWorkerPool(None, segments, Metrics())
    writers.start()
    try:
        await writers.write(vectors)  # the processes are up
        bare, served = [], []
        for _ in range(rounds):
            bare.append(alone(vectors, seconds))
            served.append(await by_writers(writers, vectors, seconds))
    finally:
        await writers.stop()
    return bare, served


def main() -> int:
    """Print the table; 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    bare, served = asyncio.run(measure(arguments.seconds, arguments.rounds))
    print(f"{describe()}\n")
    print("| JSON, width 1024 x 3 | tokens/s | tokens/s a core |\n|---|--:|--:|")
    for name, rates in (("orjson alone", bare), ("the server's processes and front", served)):
        clock = statistics.median(rate.by_clock for rate in rates)
        core = statistics.median(rate.by_core for rate in rates)
        print(f"| {name} | {clock:,.0f} | {core:,.0f} |")
    met = statistics.median(rate.by_core for rate in served) >= _GOAL
    print(f"\nThe target is {_GOAL:,} tokens/s a core, {'met' if met else 'missed'}.")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
