"""The capacity model against servers: one, two and three replicas with workers that sleep.

    python -m benchmarks.capacity [--replicas 1 2 3] [--loads 0.6 0.8] [--seconds 20]

A replica is the whole service with a worker process that sleeps for a fixed time a batch, which
holds four sentences. An open loop sends requests of one sentence, each to the replica with the
fewest, as a proxy does. The simulation of `elmo plan` has the same batch time and arrivals, and the
overhead of a request of one client. The exit status is 1 where a figure deviates by more than 15 %.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence

import orjson

from benchmarks.machine import describe
from elmo_serve import logs
from elmo_serve.capacity.batch_time import BatchTime
from elmo_serve.capacity.simulation import Replica, Simulated, Traffic, simulate
from elmo_serve.http.server import run
from elmo_serve.http.wiring import assemble
from elmo_serve.load_test.checker import Checker
from elmo_serve.load_test.connections import Connections, HttpResponse
from elmo_serve.load_test.loops import closed_loop, open_loop
from elmo_serve.load_test.sender import Sender
from elmo_serve.load_test.tally import Tally
from elmo_serve.load_test.workload import Body
from elmo_serve.output import Output
from elmo_serve.settings_text import from_strings
from elmo_serve.workers.child_process import ChildProcess, Parent
from elmo_serve.workers.messages import Batch, Done, Message, ModelInfo, Ready, RunnerSettings
from elmo_serve.workers.shared_memory import SharedMemoryPool
from tests.support.servers import free_port

BATCH_SECONDS = 0.1
SENTENCES = 4  # in a batch
TOKENS = 10  # in a sentence; two boundaries more
BATCH_TOKENS = SENTENCES * (TOKENS + 2)
_ALLOWED = 0.15
_WARM_UP = 0.1  # share of a phase; that of the simulation too
_SAFETENSORS = "application/vnd.safetensors"
_OUTPUT = Output(layers=(2,), pooling="mean")
_INFO = ModelInfo("sleeping", "0", "none", 3, 16, 0, "none")


class SleepingWorker:
    """A worker process that sleeps for every batch."""

    def __init__(self, settings: RunnerSettings, segments: SharedMemoryPool) -> None:
        self._segments = segments

    def start(self, on_message: Callable[[Message], None], on_exit: Callable[[str], None]) -> None:
        self._child = ChildProcess("sleeping", sleep, (), self._segments)
        self._child.start(on_message, on_exit)

    def submit(self, batch: Batch) -> None:
        self._child.send(batch, batch.segment)

    def kill(self) -> None:
        self._child.kill()

    async def stop(self) -> None:
        await self._child.stop()


def sleep(parent: Parent) -> None:
    """Answer each batch with zeros after its time, until the front hangs up."""
    parent.send(Ready(_INFO, BATCH_SECONDS / BATCH_TOKENS))
    while True:
        batch = parent.receive()
        memory = parent.memory(batch.segment)
        time.sleep(BATCH_SECONDS)
        for offset, output in zip(batch.offsets, batch.outputs, strict=True):
            memory[offset : offset + output.size(TOKENS, _INFO.dimension)] = 0
        parent.send(Done(batch.id, BATCH_SECONDS, 0, 0))


def serve(port: int) -> int:
    """Serve with a sleeping worker, as `elmo serve` does with a real one."""
    found = from_strings(
        {
            "port": str(port),
            "devices": "cpu",
            "log_level": "warning",
            "max_batch_tokens": str(BATCH_TOKENS),
            "max_sentence_tokens": str(TOKENS),
        }
    )
    logs.configure(found.log_level, found.log_format)
    return run(assemble(found, SleepingWorker))


@contextlib.contextmanager
def served(count: int) -> Iterator[list[str]]:
    """Yield the addresses of so many replicas, which end with the block."""
    with contextlib.ExitStack() as stack:
        urls = []
        for _ in range(count):
            port = free_port()
            command = [sys.executable, "-m", "benchmarks.capacity", "--serve", str(port)]
            process = stack.enter_context(subprocess.Popen(command))
            stack.callback(process.terminate)
            urls.append(f"http://127.0.0.1:{port}")
        for url in urls:
            _wait(url)
        yield urls


def _wait(url: str) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{url}/health/ready")
            return
        time.sleep(0.05)
    raise RuntimeError(f"{url} is not ready")


class Balanced(Connections):
    """Connections to some replicas: each request goes to one with the fewest, as a proxy does."""

    def __init__(self, urls: Sequence[str]) -> None:
        super().__init__(urls[0], 1)
        self._replicas = [Connections(url, 1_000) for url in urls]
        self._in_flight = [0] * len(urls)
        self._source = random.Random(1)

    async def post(self, path: str, body: bytes, headers: dict[str, str]) -> HttpResponse:
        fewest = min(self._in_flight)
        chosen = self._source.choice(
            [number for number, each in enumerate(self._in_flight) if each == fewest]
        )
        self._in_flight[chosen] += 1
        try:
            return await self._replicas[chosen].post(path, body, headers)
        finally:
            self._in_flight[chosen] -= 1

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._replicas))


async def measure(urls: Sequence[str], rate: float | None, seconds: float) -> Tally:
    """Return the phase of an open loop, or of one client where there is no rate."""
    bodies = []
    for number in range(10_000):
        sentence = [str(number), *["word"] * (TOKENS - 1)]
        content = orjson.dumps({"sentences": [sentence], "layers": "top", "pooling": "mean"})
        bodies.append(Body(content, (sentence,), TOKENS))
    checker = Checker(_SAFETENSORS, _OUTPUT, _INFO.dimension, 1.0, kept_bytes=0)
    connections = Balanced(urls)
    sender = Sender(connections, bodies, checker, _SAFETENSORS, 60.0)
    start = time.perf_counter()
    tally = Tally("", start + _WARM_UP * seconds, start + seconds, rate)
    if rate is None:
        await closed_loop(sender, tally, 1)
    else:
        await open_loop(sender, tally, rate, random.Random(1))
    await connections.close()
    return tally


def compared(measured: Tally, found: Simulated, name: str) -> float:
    """Print a row of the table, and return the largest deviation of its figures."""
    deviations, cells = [], []
    for percent in (None, 50.0, 90.0, 99.0):
        real, model = (
            each.latencies.mean if percent is None else each.latencies.percentile(percent)
            for each in (measured, found)
        )
        deviations.append(model / real - 1)
        cells.append(f"{1e3 * real:,.0f} / {1e3 * model:,.0f} ({deviations[-1]:+.0%})")
    not_right = measured.sent - measured.answered
    print(f"| {name} | {measured.answered} | {not_right} | {' | '.join(cells)} |")
    return max(map(abs, deviations))


def main() -> int:
    """Print the table, and fail where the model deviates."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--loads", type=float, nargs="+", default=[0.6, 0.8])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve)
    print(f"{BATCH_SECONDS} s a batch of {SENTENCES} requests; {describe()}\n")
    worst = 0.0
    with served(max(options.replicas)) as urls:
        asyncio.run(measure(urls, None, 1.0))  # the first requests of a server take longer
        alone = asyncio.run(measure(urls[:1], None, 4.0))
        overhead = alone.latencies.mean - BATCH_SECONDS
        print(f"overhead of a request: {1e3 * overhead:.1f} ms; latencies: measured / simulated\n")
        print("| replicas, load | answered | not right | mean ms | p50 ms | p90 ms | p99 ms |")
        print("|---|--:|--:|--:|--:|--:|--:|")
        for count in options.replicas:
            for load in options.loads:
                rate = load * count * SENTENCES / BATCH_SECONDS
                measured = asyncio.run(measure(urls[:count], rate, options.seconds))
                replica = Replica(
                    BatchTime(BATCH_SECONDS, 0.0), BATCH_TOKENS, overhead=max(0.0, overhead)
                )
                requests = round(rate * options.seconds)
                found = simulate(replica, count, Traffic(rate, lambda _: [TOKENS]), requests)
                worst = max(worst, compared(measured, found, f"{count}, {load:.0%}"))
    print(f"\nlargest deviation {worst:.0%}; allowed {_ALLOWED:.0%}")
    return int(worst > _ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
