"""Fairness and goodput: short requests during a bulk request, and ten times the peak load.

    python -m benchmarks.fairness [CHECKPOINT] [--seconds 20] [--rounds 3] [--text FILE]

The first table has the latencies of short requests on an idle server and during a bulk request, in
turns. The second has the peak of a closed loop, found by doubling its clients for a quarter of the
time, and the goodput of an open loop of ten times as many requests: tokens that are answered in
time and right. The peak is measured before and after it. Answers are compared with the network
itself after each measurement, up to a thousand sentences of each phase. The exit status is 1 when a
target is missed: during bulk a p99 of at most twice the idle p99 and one batch; at ten times the
load 80 % of the peak.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import describe
from benchmarks.wire import Answered, Wire, post
from elmo_serve.http.media_types import ENCODERS
from tests.support.answers import Answers, sentences
from tests.support.processes import processor_seconds
from tests.support.servers import SMALL, Running, running

_ACCEPT = "application/vnd.safetensors"
_LONGEST_SECONDS = 600.0  # timeout of requests that must not be late
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.01, 0.05  # between short requests
_MOST_CLIENTS = 256
_GROWS = 1.03  # more clients are a new peak when they have that much more throughput
_FURTHER = 4  # up to so many times the clients are tried: other work may have hidden a peak
_TIMES = 10  # the offered load, in multiples of the peak
_GOAL = 0.8  # goodput, as a share of the peak
_SEARCH = 0.25  # share of a phase's time for each number of clients
_COMPARED = 1_000  # sentences of each phase
_BULK_SENTENCES = 8_000
_BULK_QUEUE = 200_000  # tokens: below the server's limit


@dataclass(slots=True)
class Taken:
    """The requests of a phase, with answers to compare later, and their latencies."""

    seconds: float = 0.0
    tokens: int = 0  # answered within `seconds`
    latencies: list[float] = field(default_factory=list)
    answers: list[tuple[tuple[int, ...], dict[str, Any], Answered]] = field(default_factory=list)
    late: int = 0
    lost: int = 0
    statuses: Counter[int] = field(default_factory=Counter)

    def note(
        self, asked: tuple[int, ...], options: dict[str, Any], found: Answered, took: float
    ) -> None:
        """Count an answer."""
        self.statuses[found.status] += 1
        if found.status == 200:
            self.latencies.append(took)
            self.answers.append((asked, options, found))


@dataclass(frozen=True, slots=True)
class Phase:
    """The result of some seconds of load."""

    name: str
    taken: Taken
    right: list[bool]  # for each answer that was compared
    rate: float  # tokens a second in time, times the share of right answers
    front_seconds: float  # processor time of the front process


class Asker:
    """Makes requests; each has scalar weights of its own, so no sentence is shared."""

    def __init__(self, answers: Answers, source: random.Random) -> None:
        self._answers = answers
        self._source = source
        lengths = [len(sentence) for sentence in answers.sentences]
        self._usual = [i for i, length in enumerate(lengths) if 4 <= length <= 40]
        self._short = [i for i, length in enumerate(lengths) if 4 <= length <= 12]

    def small(self) -> tuple[tuple[int, ...], dict[str, Any]]:
        """One short sentence."""
        return (self._source.choice(self._short),), self._mix()

    def page(self) -> tuple[tuple[int, ...], dict[str, Any]]:
        """Eight sentences."""
        return tuple(self._source.choices(self._usual, k=8)), self._mix()

    def bulk(self, tokens: float) -> tuple[tuple[int, ...], dict[str, Any]]:
        """Distinct sentences with so many tokens together, pooled."""
        chosen = self._source.sample(self._usual, len(self._usual))
        kept, total = [], 0
        for index in chosen[:_BULK_SENTENCES]:
            if total > tokens:
                break
            kept.append(index)
            total += self.tokens((index,))
        return tuple(kept), {**self._mix(), "pooling": "mean"}

    def tokens(self, asked: tuple[int, ...]) -> int:
        """Return their cost, boundaries included."""
        return sum(len(self._answers.sentences[index]) + 2 for index in asked)

    def bytes(self, asked: tuple[int, ...], options: dict[str, Any], timeout: float) -> bytes:
        """Return the request."""
        texts = [self._answers.sentences[index] for index in asked]
        return post({"sentences": texts, **options}, _ACCEPT, timeout)

    def right(self, taken: Taken) -> list[bool]:
        """Compare a random selection of the answers with the network itself."""
        decode = ENCODERS[_ACCEPT].decode
        found = []
        left = _COMPARED
        for asked, options, answer in self._source.sample(taken.answers, len(taken.answers)):
            arrays = decode(answer.body)
            pairs = list(zip(arrays, asked, strict=False))
            some = self._source.sample(pairs, min(len(pairs), left))
            found.append(
                len(arrays) == len(asked)
                and all(self._answers.difference(*pair, options) <= 1 for pair in some)
            )
            left -= len(some)
            if left <= 0:
                break
        return found

    def _mix(self) -> dict[str, Any]:
        weights = [self._source.uniform(-2, 2) for _ in range(self._answers.layer_count)]
        return {"mix": {"weights": weights, "gamma": 1.0, "layer_norm": False}}


async def short_requests(wire: Wire, asker: Asker, taken: Taken, seconds: float) -> None:
    """Send short requests one after another, with pauses, for so many seconds."""
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        asked, options = asker.small()
        request = asker.bytes(asked, options, _LONGEST_SECONDS)
        began = time.perf_counter()
        found = await wire.ask(request)
        taken.note(asked, options, found, time.perf_counter() - began)
        await asyncio.sleep(random.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))
    taken.seconds += time.perf_counter() - start


async def during_bulk(
    server: Running, asker: Asker, seconds: float, rounds: int
) -> tuple[Taken, Taken, Taken, float]:
    """Return short requests when idle, during bulk, the bulk, and the seconds of a full batch."""
    wire = Wire(server.url)
    idle, during, bulk = Taken(), Taken(), Taken()
    rate, batch_seconds = await _pace(server, wire, asker)
    tokens = min(rate * seconds, _BULK_QUEUE)

    async def keep_sending() -> None:
        while True:
            asked, options = asker.bulk(tokens)
            began = time.perf_counter()
            found = await wire.ask(asker.bytes(asked, options, _LONGEST_SECONDS))
            bulk.note(asked, options, found, time.perf_counter() - began)

    for _ in range(rounds):
        await short_requests(wire, asker, idle, seconds / rounds)
        sender = asyncio.create_task(keep_sending())
        await asyncio.sleep(3 * batch_seconds + 0.1)
        await short_requests(wire, asker, during, seconds / rounds)
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)
        await asyncio.sleep(3 * batch_seconds + 0.1)  # a batch that runs is not cancelled
    await wire.close()
    return idle, during, bulk, batch_seconds


async def _pace(server: Running, wire: Wire, asker: Asker) -> tuple[float, float]:
    """Return the best tokens a second, and seconds a batch, of bulk requests by themselves."""
    tokens = 4_096.0
    rates, batches = [], []
    for _ in range(5):
        before = await _batches(server)
        asked, options = asker.bulk(tokens)
        began = time.perf_counter()
        await wire.ask(asker.bytes(asked, options, _LONGEST_SECONDS))
        rates.append(asker.tokens(asked) / (time.perf_counter() - began))
        after = await _batches(server)
        batches.append((after[0] - before[0]) / max(1, after[1] - before[1]))
    return max(rates), min(batches)


async def _batches(server: Running) -> tuple[float, float]:
    name = "elmo_batch_duration_seconds"
    return (
        await asyncio.to_thread(server.metric, f"{name}_sum"),
        await asyncio.to_thread(server.metric, f"{name}_count"),
    )


async def closed_loop(
    wire: Wire, asker: Asker, clients: int, seconds: float, deadline: float
) -> Taken:
    """Let clients send pages, each the next one as soon as it is answered."""
    taken = Taken()
    start = time.perf_counter()

    async def client() -> None:
        while time.perf_counter() - start < seconds:
            asked, options = asker.page()
            await _timed(wire, asker, taken, asked, options, deadline)

    await asyncio.gather(*(client() for _ in range(clients)))
    _end(taken, asker, start)
    return taken


async def open_loop(
    wire: Wire, asker: Asker, rate: float, seconds: float, deadline: float
) -> Taken:
    """Send so many pages a second, whether they are answered or not; repeat none."""
    taken = Taken()
    pool = [asker.page() for _ in range(round(rate * seconds))]
    requests = [(*page, asker.bytes(*page, deadline)) for page in pool]
    source = random.Random(3)
    tasks = set()
    start = due = time.perf_counter()
    for asked, options, request in requests:
        due += source.expovariate(rate)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        task = asyncio.create_task(_timed(wire, asker, taken, asked, options, deadline, request))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    _end(taken, asker, start)  # later answers would raise the rate
    await asyncio.gather(*tasks)
    return taken


def _end(taken: Taken, asker: Asker, start: float) -> None:
    """Record the time of a phase, and the tokens that were answered in it."""
    taken.seconds = time.perf_counter() - start
    taken.tokens = sum(asker.tokens(asked) for asked, _, _ in taken.answers)


async def _timed(
    wire: Wire,
    asker: Asker,
    taken: Taken,
    asked: tuple[int, ...],
    options: dict[str, Any],
    deadline: float,
    request: bytes | None = None,
) -> None:
    request = request or asker.bytes(asked, options, deadline)
    began = time.perf_counter()
    try:
        async with asyncio.timeout(deadline + 5):
            found = await wire.ask(request)
    except (OSError, EOFError, TimeoutError):
        taken.lost += 1
        return
    took = time.perf_counter() - began
    if took > deadline and found.status == 200:
        taken.late += 1
    else:
        taken.note(asked, options, found, took)


async def overload(server: Running, asker: Asker, seconds: float, deadline: float) -> list[Phase]:
    """Find the peak, then measure it, ten times its load, and it again: the last three phases."""
    wire = Wire(server.url)
    phases: list[Phase] = []

    async def phase(name: str, clients: int | None, rate: float = 0.0, part: float = 1.0) -> float:
        before = processor_seconds(server.pid)
        if clients is None:
            taken = await open_loop(wire, asker, rate, seconds, deadline)
        else:
            taken = await closed_loop(wire, asker, clients, part * seconds, deadline)
        used = processor_seconds(server.pid) - before
        right = asker.right(taken)
        found = taken.tokens / taken.seconds * sum(right) / max(1, len(right))
        phases.append(Phase(name, taken, right, found, used))
        await asyncio.sleep(min(deadline, 2.0))
        return found

    best, at, clients = 0.0, 1, 1
    while clients <= min(_MOST_CLIENTS, _FURTHER * at):
        found = await phase(f"{clients} clients", clients, part=_SEARCH)
        if found > _GROWS * best:
            best, at = found, clients
        clients *= 2
    await phase(f"{at} clients, the peak", at)
    peak = phases[-1].taken
    rate = _TIMES * len(peak.answers) / peak.seconds
    await phase(f"open loop, {rate:,.0f} requests/s", None, rate)
    await phase(f"{at} clients again", at)
    await wire.close()
    return phases


def goodput(phases: list[Phase]) -> tuple[float, float]:
    """Return the goodput as a share of the peak, and the peak: the mean of before and after."""
    *_, before, beyond, again = phases
    peak = statistics.mean([before.rate, again.rate])
    return beyond.rate / peak, peak


def _print_waits(idle: Taken, during: Taken, bulk: Taken, batch_seconds: float) -> bool:
    bound = 2 * _p99(idle.latencies) + batch_seconds
    print("| short requests | number | p50 ms | p99 ms |\n|---|--:|--:|--:|")
    for name, taken in (("idle", idle), ("during bulk", during)):
        middle = statistics.median(taken.latencies)
        number, worst = len(taken.latencies), _p99(taken.latencies)
        print(f"| {name} | {number} | {middle * 1e3:.1f} | {worst * 1e3:.1f} |")
    met = _p99(during.latencies) <= bound
    print(
        f"\nA batch of bulk takes {batch_seconds * 1e3:.1f} ms: the target is "
        f"{bound * 1e3:.1f} ms, {'met' if met else 'missed'}. {len(bulk.answers)} bulk requests "
        "ended meanwhile.\n"
    )
    return met


def _print_overload(phases: list[Phase]) -> bool:
    print(
        "| load | tokens/s right and in time | requests/s | p99 ms | late | lost | statuses | "
        "front's CPU, ms a request |\n|---|--:|--:|--:|--:|--:|---|--:|"
    )
    for phase in phases:
        taken = phase.taken
        asked = sum(taken.statuses.values()) + taken.late + taken.lost
        told = ", ".join(f"{count} x {status}" for status, count in taken.statuses.most_common())
        print(
            f"| {phase.name} | {phase.rate:,.0f} | {len(taken.answers) / taken.seconds:,.1f} "
            f"| {_p99(taken.latencies) * 1e3:.0f} | {taken.late} | {taken.lost} | {told} "
            f"| {phase.front_seconds / max(1, asked) * 1e3:.2f} |"
        )
    share, peak = goodput(phases)
    met = share >= _GOAL
    print(
        f"\nGoodput is {share:.0%} of the peak ({peak:,.0f}, the mean of before and "
        f"after); the target is {_GOAL:.0%}, {'met' if met else 'missed'}."
    )
    return met


def _p99(latencies: list[float]) -> float:
    return statistics.quantiles(latencies, n=100)[98] if len(latencies) > 1 else float("inf")


def main() -> int:
    """Measure, print, and fail when an answer was wrong or a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint", nargs="?", default=str(SMALL))
    parser.add_argument("--text", type=Path)
    parser.add_argument("--seconds", type=float, default=20, help="of each phase")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--deadline", type=float, default=5.0, help="of a page, in seconds")
    parser.add_argument("--sentences", type=int, default=2_000, help="distinct ones")
    options = parser.parse_args()
    torch.set_num_threads(1)
    made = sentences(options.text, options.sentences, random.Random(4))
    answers = Answers(options.checkpoint, made)
    asker = Asker(answers, random.Random(5))
    print(f"{Path(options.checkpoint).name}; {describe()}\n")
    with (
        tempfile.TemporaryDirectory() as folder,
        running(
            Path(folder), model=options.checkpoint, request_timeout_seconds=_LONGEST_SECONDS
        ) as server,
    ):
        waits = asyncio.run(during_bulk(server, asker, options.seconds, options.rounds))
        met = _print_waits(*waits)
        wrong = sum(not each for taken in waits[:3] for each in asker.right(taken))
        phases = asyncio.run(overload(server, asker, options.seconds, options.deadline))
        met &= _print_overload(phases)
        wrong += sum(not each for phase in phases for each in phase.right)
    print(f"{wrong} answers were wrong." if wrong else "No answer was wrong.")
    return 0 if met and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
