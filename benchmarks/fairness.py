"""Fairness and goodput: short requests during a bulk request, and ten times the peak load.

    python -m benchmarks.fairness [CHECKPOINT] [--seconds 20] [--rounds 3] [--text FILE]

The first table has the latencies of short requests on an idle server and during a bulk request, in
turns. The second has the peak of a closed loop, found by doubling its clients for a quarter of the
time, and the goodput of an open loop of ten times as many requests: tokens that are answered in
time and right. The peak is measured before and after it. Answers are compared with the network
itself after each measurement, up to a thousand sentences of each phase. The exit status is 1 when a
target is missed: during bulk a p99 of at most twice the idle p99 and 0.1 s; at ten times the load
60 % of the peak.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import describe
from elmo_serve.http.media_types import ENCODERS
from elmo_serve.load_test.connections import Connections
from elmo_serve.load_test.run import Phase, Request, Sender, closed_loop, open_loop, percentile
from tests.support.answers import Answers, Asked, sentences
from tests.support.processes import processor_seconds
from tests.support.servers import SMALL, Running, running

_ACCEPT = "application/vnd.safetensors"
_LONGEST_SECONDS = 600.0  # timeout of requests that must not be late
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.01, 0.05  # between short requests
_MOST_CLIENTS = 256
_MOST_CONNECTIONS = 100_000  # the open loop waits for none of them
_GROWS = 1.03  # more clients are a new peak when they have that much more throughput
_FURTHER = 4  # up to so many times the clients are tried: other work may have hidden a peak
_TIMES = 10  # the offered load, in multiples of the peak
_GOAL = 0.6  # goodput, as a share of the peak
_SEARCH = 0.25  # share of a phase's time for each number of clients
_COMPARED = 1_000  # sentences of each phase
_MORE_SECONDS = 0.1  # beside bulk, above twice the idle p99
_SETTLE_SECONDS = 1.0  # before and after a bulk request
_BULK_SENTENCES = 8_000
_BULK_QUEUE = 200_000  # tokens: below the server's limit

Kept = list[tuple[Asked, bytes]]
"""Responses, compared after a phase: the comparison would take the server's processor time."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of some seconds of load."""

    phase: Phase
    right: list[bool]  # for each response that was compared
    rate: float  # tokens a second in time, times the share of right responses
    front_seconds: float  # processor time of the front process


class Asker:
    """Makes requests; each has scalar weights of its own, so no sentence is shared."""

    def __init__(self, answers: Answers, source: random.Random) -> None:
        self._answers = answers
        self._source = source
        lengths = [len(sentence) for sentence in answers.sentences]
        self._usual = [i for i, length in enumerate(lengths) if 4 <= length <= 40]
        self._short = [i for i, length in enumerate(lengths) if 4 <= length <= 12]

    def small(self) -> Asked:
        """One short sentence."""
        return Asked((self._source.choice(self._short),), self._mix())

    def page(self) -> Asked:
        """Eight sentences."""
        return Asked(tuple(self._source.choices(self._usual, k=8)), self._mix())

    def bulk(self, tokens: float) -> Asked:
        """Distinct sentences with so many tokens together, pooled."""
        chosen = self._source.sample(self._usual, len(self._usual))
        kept, total = [], 0
        for index in chosen[:_BULK_SENTENCES]:
            if total > tokens:
                break
            kept.append(index)
            total += self._cost((index,))
        return Asked(tuple(kept), {**self._mix(), "pooling": "mean"})

    def requests(self, make: Callable[[], Asked], kept: Kept) -> Iterator[Request]:
        """Yield requests without end; their responses are kept. Tokens include the boundaries."""
        while True:
            asked = make()
            request = self._answers.request(asked, _ACCEPT)
            cost, keep = self._cost(asked.sentences), partial(_keep, kept, asked)
            yield replace(request, tokens=cost, difference=keep)

    def right(self, kept: Kept) -> list[bool]:
        """Compare a random selection of the responses with the network itself."""
        decode = ENCODERS[_ACCEPT].decode
        found = []
        left = _COMPARED
        for asked, content in self._source.sample(kept, len(kept)):
            arrays = decode(content)
            pairs = list(zip(arrays, asked.sentences, strict=False))
            some = self._source.sample(pairs, min(len(pairs), left))
            found.append(
                len(arrays) == len(asked.sentences)
                and all(self._answers.difference(*pair, asked.options) <= 1 for pair in some)
            )
            left -= len(some)
            if left <= 0:
                break
        return found

    def _cost(self, indices: tuple[int, ...]) -> int:
        return sum(len(self._answers.sentences[index]) + 2 for index in indices)

    def _mix(self) -> dict[str, Any]:
        weights = [self._source.uniform(-2, 2) for _ in range(self._answers.layer_count)]
        return {"mix": {"weights": weights, "gamma": 1.0, "layer_norm": False}}


def _keep(kept: Kept, asked: Asked, content: bytes) -> None:
    kept.append((asked, content))


async def during_bulk(
    server: Running, asker: Asker, seconds: float, rounds: int
) -> tuple[Phase, Phase, Phase, Kept]:
    """Return short requests when idle, during bulk, and the bulk."""
    connections = Connections(server.url, 2)
    kept: Kept = []
    idle, during, bulk = Phase("idle"), Phase("during bulk"), Phase("bulk")
    short = Sender(connections, asker.requests(asker.small, kept), _LONGEST_SECONDS)
    tokens = min(await _rate(connections, asker) * seconds, _BULK_QUEUE)
    make = partial(asker.bulk, tokens)
    long = Sender(connections, asker.requests(make, kept), _LONGEST_SECONDS)
    for _ in range(rounds):
        await _short_requests(short, idle, seconds / rounds)
        sending = asyncio.create_task(closed_loop(long.send, bulk, 1))
        await asyncio.sleep(_SETTLE_SECONDS)
        await _short_requests(short, during, seconds / rounds)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await asyncio.sleep(_SETTLE_SECONDS)
    await connections.close()
    return idle, during, bulk, kept


async def _short_requests(sender: Sender, phase: Phase, seconds: float) -> None:
    """Send short requests one after another, with pauses, for so many seconds."""
    start = time.perf_counter()
    while (now := time.perf_counter()) - start < seconds:
        await sender.send(phase, now)
        await asyncio.sleep(random.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))


async def _rate(connections: Connections, asker: Asker) -> float:
    """Return the best tokens a second of bulk requests by themselves."""
    sender = Sender(connections, asker.requests(lambda: asker.bulk(4_096.0), []), _LONGEST_SECONDS)
    rates = []
    for _ in range(5):
        phase = Phase("one bulk request")
        await sender.send(phase, time.perf_counter())
        rates.append(phase.done_tokens / phase.latencies[0])
    return max(rates)


async def overload(
    server: Running, asker: Asker, seconds: float, deadline: float
) -> list[Measured]:
    """Find the peak, then measure it, ten times its load, and it again: the last three phases."""
    connections = Connections(server.url, _MOST_CONNECTIONS)
    found: list[Measured] = []

    async def measure(name: str, clients: int, rate: float = 0.0, part: float = 1.0) -> float:
        kept: Kept = []
        requests = asker.requests(asker.page, kept)
        if rate:  # made before the load begins, which leaves the server more processor time
            requests = cycle(list(islice(requests, round(rate * seconds))))
        send = Sender(connections, requests, deadline).send
        before, start = processor_seconds(server.pid), time.perf_counter()
        phase = Phase(name, start, start + part * seconds)
        if rate:
            await open_loop(send, phase, rate, random.Random(3))
        else:
            await closed_loop(send, phase, clients)
        used = processor_seconds(server.pid) - before
        right = asker.right(kept)
        goodput = phase.tokens_per_second * sum(right) / max(1, len(right))
        found.append(Measured(phase, right, goodput, used))
        await asyncio.sleep(min(deadline, 2.0))
        return goodput

    best, at, clients = 0.0, 1, 1
    while clients <= min(_MOST_CLIENTS, _FURTHER * at):
        goodput = await measure(f"{clients} clients", clients, part=_SEARCH)
        if goodput > _GROWS * best:
            best, at = goodput, clients
        clients *= 2
    await measure(f"{at} clients, the peak", at)
    rate = _TIMES * found[-1].phase.requests_per_second
    await measure(f"open loop, {rate:,.0f} requests/s", 0, rate)
    await measure(f"{at} clients again", at)
    await connections.close()
    return found


def goodput(found: list[Measured]) -> tuple[float, float]:
    """Return the goodput as a share of the peak, and the peak: the mean of before and after."""
    *_, before, beyond, again = found
    peak = statistics.mean([before.rate, again.rate])
    return beyond.rate / peak, peak


def _print_waits(idle: Phase, during: Phase, bulk: Phase) -> bool:
    bound = 2 * _p99(idle.latencies) + _MORE_SECONDS
    print("| short requests | number | p50 ms | p99 ms |\n|---|--:|--:|--:|")
    for phase in (idle, during):
        middle, worst = statistics.median(phase.latencies), _p99(phase.latencies)
        print(f"| {phase.name} | {phase.answered} | {middle * 1e3:.1f} | {worst * 1e3:.1f} |")
    met = _p99(during.latencies) <= bound
    print(
        f"\nThe target is {bound * 1e3:.1f} ms, {'met' if met else 'missed'}. {bulk.answered} bulk "
        "requests ended meanwhile.\n"
    )
    return met


def _print_overload(found: list[Measured]) -> bool:
    print(
        "| load | tokens/s right and in time | requests/s | p99 ms | late | lost | refused | "
        "failed | front's CPU, ms a request |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    for each in found:
        phase = each.phase
        print(
            f"| {phase.name} | {each.rate:,.0f} | {phase.requests_per_second:,.1f} "
            f"| {_p99(phase.latencies) * 1e3:.0f} | {phase.late} | {phase.lost} "
            f"| {phase.refused.total()} | {phase.failed.total()} "
            f"| {each.front_seconds / max(1, phase.sent) * 1e3:.2f} |"
        )
    share, peak = goodput(found)
    met = share >= _GOAL
    print(
        f"\nGoodput is {share:.0%} of the peak ({peak:,.0f}, the mean of before and "
        f"after); the target is {_GOAL:.0%}, {'met' if met else 'missed'}."
    )
    return met


def _p99(latencies: Sequence[float]) -> float:
    return percentile(latencies, 99)


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
        idle, during, bulk, kept = asyncio.run(
            during_bulk(server, asker, options.seconds, options.rounds)
        )
        met = _print_waits(idle, during, bulk)
        found = asyncio.run(overload(server, asker, options.seconds, options.deadline))
        met &= _print_overload(found)
        wrong = asker.right(kept).count(False) + sum(each.right.count(False) for each in found)
    print(f"{wrong} answers were wrong." if wrong else "No answer was wrong.")
    return 0 if met and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
