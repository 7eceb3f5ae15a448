"""Fairness and goodput: short requests during a bulk request, and ten times the peak load.

    python -m benchmarks.fairness [CHECKPOINT] [--seconds 20] [--rounds 3] [--text FILE]

The first table has the latencies of short requests on an idle server and during a bulk request, in
turns. The second has the peak of a closed loop, found by doubling its clients for a quarter of the
time, and the goodput of an open loop of ten times as many requests: tokens that are answered in
time and right. The peak is measured before and after it. The first response to each of some
hundred requests is compared with the network itself, and the later ones with that. The exit status
is 1 when a target is missed: during bulk a p99 of at most twice the idle p99 and 0.1 s; at ten
times the load half of the peak.
"""

import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, cycle
from pathlib import Path

import torch

from benchmarks import machine
from benchmarks.comparison import Request
from benchmarks.connections import Connections
from benchmarks.load import (
    Phase,
    Send,
    Sender,
    closed_loop,
    open_loop,
    percentile,
)
from tests.support.answers import Answers, Asked, sentences
from tests.support.processes import processor_seconds
from tests.support.servers import SMALL, Running, running

_ACCEPT = "application/vnd.safetensors"
_LONGEST_SECONDS = 600.0  # timeout of requests that must not be late
_PAUSES = (0.01, 0.05)  # seconds between short requests, least and most
_DISTINCT = 500  # requests of a kind
_SENTENCES = 2_000  # that they are made of
_MOST_CLIENTS = 256
_MOST_CONNECTIONS = 100_000  # the open loop waits for none of them
_GROWS = 1.03  # more clients are a new peak when they have that much more throughput
_FURTHER = 4  # up to so many times the clients are tried: other work may have hidden a peak
_TIMES = 10  # the offered load, in multiples of the peak
_GOAL = 0.5  # goodput, as a share of the peak
_SEARCH = 0.25  # share of a phase's time for each number of clients
_MORE_SECONDS = 0.1  # beside bulk, above twice the idle p99
_PAGE_SECONDS = 5.0  # timeout of a page
_SETTLE_SECONDS = 1.0  # before and after a bulk request, and after a phase
_BULK_SENTENCES = 8_000
_BULK_QUEUE = 200_000  # tokens: below the server's limit

Compare = Callable[[bytes], float | None]
"""`Request.difference`: maps a response to its largest difference in tolerances."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of some seconds of load."""

    phase: Phase
    front_seconds: float  # processor time of the front process


class Requests:
    """Makes requests of a kind, to be sent in turn, whose tokens include the boundaries."""

    def __init__(self, answers: Answers, source: random.Random) -> None:
        self._answers = answers
        self._source = source
        lengths = [len(sentence) for sentence in answers.sentences]
        self._usual = [i for i, length in enumerate(lengths) if 4 <= length <= 40]
        self._short = [i for i, length in enumerate(lengths) if 4 <= length <= 12]

    def small(self) -> list[Request]:
        """One short sentence each."""
        return [self._request([self._source.choice(self._short)]) for _ in range(_DISTINCT)]

    def pages(self) -> list[Request]:
        """Eight sentences each."""
        return [self._request(self._source.choices(self._usual, k=8)) for _ in range(_DISTINCT)]

    def bulk(self, tokens: float) -> list[Request]:
        """One request of distinct sentences with so many tokens together, pooled."""
        chosen = self._source.sample(self._usual, len(self._usual))[:_BULK_SENTENCES]
        sizes = accumulate(self._cost([index]) for index in chosen)
        count = sum(size <= tokens for size in sizes) + 1
        return [self._request(chosen[:count], pooling="mean")]

    def _request(self, indices: list[int], **options: str) -> Request:
        weights = [self._source.uniform(-2, 2) for _ in range(self._answers.layer_count)]
        mix = {"weights": weights, "gamma": 1.0, "layer_norm": False}
        request = self._answers.request(Asked(tuple(indices), {"mix": mix, **options}), _ACCEPT)
        return replace(request, tokens=self._cost(indices), difference=_once(request.difference))

    def _cost(self, indices: Sequence[int]) -> int:
        return sum(len(self._answers.sentences[index]) + 2 for index in indices)


def _once(difference: Compare) -> Compare:
    """Compare the first response with the network, and each later one with that one's bytes.

    To compare all with the network would take the processor time of the server.
    """
    right: set[int] = set()

    def compare(content: bytes) -> float | None:
        if hash(content) in right:
            return 0.0
        found = difference(content)
        if found is not None and found <= 1:
            right.add(hash(content))
        return found

    return compare


async def during_bulk(
    server: Running, requests: Requests, seconds: float, rounds: int
) -> tuple[Phase, Phase, Phase]:
    """Return short requests when idle, during bulk, and the bulk."""
    connections = Connections(server.url, 2)
    idle, during, bulk = Phase("idle"), Phase("during bulk"), Phase("bulk")
    short = Sender(connections, cycle(requests.small()), _LONGEST_SECONDS)
    tokens = min(await _rate(connections, requests) * seconds, _BULK_QUEUE)
    long = Sender(connections, cycle(requests.bulk(tokens)), _LONGEST_SECONDS)
    await long.send(Phase("compared with the network"), time.perf_counter())
    for _ in range(rounds):
        await _short_requests(short, idle, seconds / rounds)
        sending = asyncio.create_task(closed_loop(long.send, bulk, 1))
        await asyncio.sleep(_SETTLE_SECONDS)
        await _short_requests(short, during, seconds / rounds)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await asyncio.sleep(_SETTLE_SECONDS)
    await connections.close()
    return idle, during, bulk


async def one_after_another(
    send: Send, phase: Phase, is_over: Callable[[], bool], pauses: tuple[float, float]
) -> None:
    """Send requests one after another, each after a random pause in seconds."""
    while not is_over():
        await asyncio.sleep(random.uniform(*pauses))
        await send(phase, time.perf_counter())


async def _short_requests(sender: Sender, phase: Phase, seconds: float) -> None:
    until = time.perf_counter() + seconds
    await one_after_another(sender.send, phase, lambda: time.perf_counter() > until, _PAUSES)


async def _rate(connections: Connections, requests: Requests) -> float:
    """Return the best tokens a second of bulk requests by themselves."""
    sender = Sender(connections, cycle(requests.bulk(4_096.0)), _LONGEST_SECONDS)
    rates = []
    for _ in range(5):
        phase = Phase("one bulk request")
        await sender.send(phase, time.perf_counter())
        rates.append(phase.done_tokens / phase.latencies[0])
    return max(rates)


async def overload(server: Running, requests: Requests, seconds: float) -> list[Measured]:
    """Find the peak, then measure it, ten times its load, and it again: the last three phases."""
    connections = Connections(server.url, _MOST_CONNECTIONS)
    send = Sender(connections, cycle(requests.pages()), _PAGE_SECONDS).send
    found: list[Measured] = []

    async def measure(name: str, clients: int, rate: float = 0.0, part: float = 1.0) -> float:
        before, start = processor_seconds(server.pid), time.perf_counter()
        phase = Phase(name, start, start + part * seconds)
        if rate:
            await open_loop(send, phase, rate, random.Random(3))
        else:
            await closed_loop(send, phase, clients)
        found.append(Measured(phase, processor_seconds(server.pid) - before))
        await asyncio.sleep(_SETTLE_SECONDS)
        return phase.tokens_per_second

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


def _print_waits(idle: Phase, during: Phase, bulk: Phase) -> bool:
    bound = 2 * _p99(idle) + _MORE_SECONDS
    print(machine.head("short requests", "number", "p50 ms", "p99 ms"))
    for phase in (idle, during):
        times = (statistics.median(phase.latencies), _p99(phase))
        print(machine.row(phase.name, phase.answered, *(f"{1e3 * each:.1f}" for each in times)))
    met = _p99(during) <= bound
    print(
        f"\nThe target is {bound * 1e3:.1f} ms, {'met' if met else 'missed'}. {bulk.answered} bulk "
        "requests ended meanwhile.\n"
    )
    return met


def _print_overload(found: list[Measured]) -> bool:
    counts = ("late", "lost", "refused", "failed", "front's CPU, ms a request")
    print(machine.head("load", "tokens/s right and in time", "requests/s", "p99 ms", *counts))
    for each in found:
        phase = each.phase
        rates = (f"{phase.tokens_per_second:,.0f}", f"{phase.requests_per_second:,.1f}")
        refused = (phase.refused.total(), phase.failed.total())
        front = f"{1e3 * each.front_seconds / max(1, phase.sent):.2f}"
        times = (f"{1e3 * _p99(phase):.0f}", phase.late, phase.lost)
        print(machine.row(phase.name, *rates, *times, *refused, front))
    before, beyond, again = (each.phase.tokens_per_second for each in found[-3:])
    peak = (before + again) / 2
    share = beyond / peak
    met = share >= _GOAL
    print(
        f"\nGoodput is {share:.0%} of the peak ({peak:,.0f}, the mean of before and "
        f"after); the target is {_GOAL:.0%}, {'met' if met else 'missed'}."
    )
    return met


def _p99(phase: Phase) -> float:
    return percentile(phase.latencies, 99)


def main() -> int:
    """Measure, print, and fail when an answer was wrong or a target was missed."""
    parser = machine.parser(__doc__)
    parser.add_argument("checkpoint", nargs="?", default=str(SMALL))
    parser.add_argument("--text", type=Path)
    parser.add_argument("--seconds", type=float, default=20, help="of each phase")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    made = sentences(options.text, _SENTENCES, random.Random(4))
    answers = Answers(options.checkpoint, made)
    requests = Requests(answers, random.Random(5))
    print(f"{Path(options.checkpoint).name}; {machine.describe()}\n")
    with (
        tempfile.TemporaryDirectory() as folder,
        running(
            Path(folder), model=options.checkpoint, request_timeout_seconds=_LONGEST_SECONDS
        ) as server,
    ):
        waits = asyncio.run(during_bulk(server, requests, options.seconds, options.rounds))
        met = _print_waits(*waits)
        found = asyncio.run(overload(server, requests, options.seconds))
        met &= _print_overload(found)
    wrong = sum(phase.wrong for phase in (*waits, *(each.phase for each in found)))
    print(f"{wrong} answers were wrong." if wrong else "No answer was wrong.")
    return 0 if met and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
