"""Load on POST /embed of a running server: a closed or an open loop; every response is compared.

    python -m benchmarks.load URL [--clients 8 | --rate 50] [--seconds 10] [--body FILE]

In a closed loop each client sends its next request after a response. An open loop sends requests
at random moments, as a Poisson process, whether earlier ones were answered or not. FILE has bodies
of POST /embed, one a line, which are sent in turn; without it each body has eight English
sentences. The first fifth of the time, at most 2 s, is not measured. A response is right if it has
the shapes of the first one to the same body, its numbers are finite, and they differ by at most
1e-5 (float16 1e-3) of the largest value. The exit status is 1 where a vector was wrong, a request
was lost or failed, or nothing was answered; refusals (429, 503) and late responses are counted.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import orjson

from benchmarks import machine
from benchmarks.comparison import Reference, Request
from benchmarks.connections import Connections, LostError
from elmo_model.inference import centre

TIMEOUT_SECONDS = 60.0
_GRACE_SECONDS = 5.0  # beyond the timeout, in which the server's own 504 arrives
_LOST_PAUSE_SECONDS = 0.1  # after a lost request, so that a dead server is not asked without end
_INLINE_BYTES = 64 << 10  # responses up to this size are compared on the event loop, in no thread
_MAX_FAULTS, _SHOWN = 5, 200  # last faults kept as text, and characters of each
_MOST_CONNECTIONS = 1_000  # of an open loop
_SENTENCES = 8  # of a body, without --body

Send = Callable[["Phase", float], Coroutine[Any, Any, float]]
"""`Sender.send`: sends a request that is due at a time, and returns a pause in seconds."""


def _text(content: bytes) -> str:
    return content[:_SHOWN].decode("utf-8", "replace")


def percentile(times: Sequence[float], percent: float) -> float:
    """Return a percentile of some times; NaN without any."""
    return float(np.percentile(times, percent)) if times else math.nan


@dataclass(slots=True)
class Phase:
    """Counts of some seconds of load. Times are seconds of `time.perf_counter`.

    Only requests due from `since` to `until` are counted; wrong, failed and lost requests are also
    counted during the warm-up before. A refusal (429, 503) is a response of a healthy server. A
    late request was answered 504, or after the timeout.

    Attributes:
        latencies: from the time a request was due to the end of its response, of answers in time.
        done, done_tokens: right answers in time that came within the window, and their tokens.
        worst: the largest difference of an answer, in tolerances.
    """

    name: str
    since: float = -math.inf
    until: float = math.inf
    sent: int = 0
    answered: int = 0
    late: int = 0
    lost: int = 0
    wrong: int = 0
    compared: int = 0
    done: int = 0
    done_tokens: int = 0
    worst: float = 0.0
    refused: Counter[int] = field(default_factory=Counter)
    failed: Counter[int] = field(default_factory=Counter)
    faults: deque[str] = field(default_factory=partial(deque, maxlen=_MAX_FAULTS))
    latencies: list[float] = field(default_factory=list)

    def is_measured(self, time: float) -> bool:
        """Tell whether a time is in the window."""
        return self.since <= time < self.until

    @property
    def requests_per_second(self) -> float:
        """Requests a second that were answered, right and in time."""
        return self.done / (self.until - self.since)

    @property
    def tokens_per_second(self) -> float:
        """Their tokens a second: the goodput."""
        return self.done_tokens / (self.until - self.since)

    @property
    def is_bad(self) -> bool:
        """Whether a vector was wrong, a request lost, or a response neither vectors nor refusal."""
        return bool(self.wrong or self.lost or self.failed)


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends requests, and compares the vectors that come back."""

    connections: Connections
    requests: Iterator[Request]
    timeout_seconds: float = TIMEOUT_SECONDS

    async def send(self, phase: Phase, due: float) -> float:
        """Send the next request, which was due at that time (`time.perf_counter`), and count it.

        Return the seconds that a client should wait before its next request.
        """
        request = next(self.requests)
        is_measured = phase.is_measured(due)
        phase.sent += is_measured
        headers = {
            "Content-Type": "application/json",
            "Accept": request.media_type,
            "X-Request-Timeout": f"{self.timeout_seconds:g}",
        }
        try:
            async with asyncio.timeout(self.timeout_seconds + _GRACE_SECONDS):
                response = await self.connections.post("/embed", request.content, headers)
        except (LostError, TimeoutError) as error:
            phase.lost += 1
            phase.faults.append(f"lost: {str(error) or 'no response, not even a late one'}")
            return _LOST_PAUSE_SECONDS
        if response.status == 200:
            await self._answered(phase, request, response.body, due)
        elif response.status in (429, 503):
            phase.refused[response.status] += is_measured
        elif response.status == 504:
            phase.late += is_measured
        else:
            phase.failed[response.status] += 1
            phase.faults.append(f"failed: {response.status} {_text(response.body)}")
        wait = response.headers.get("retry-after", "")
        return float(wait) if wait.isdecimal() else 0.0

    async def _answered(self, phase: Phase, request: Request, body: bytes, due: float) -> None:
        ended = time.perf_counter()
        is_late = ended - due > self.timeout_seconds
        if phase.is_measured(due):
            phase.answered += not is_late
            phase.late += is_late
            if not is_late:
                phase.latencies.append(ended - due)
        compare = partial(request.difference, body)
        found = compare() if len(body) <= _INLINE_BYTES else await asyncio.to_thread(compare)
        if found is not None:
            phase.compared += 1
            phase.worst = max(phase.worst, found)
        if found is not None and found > 1:
            phase.wrong += 1
            phase.faults.append(f"wrong: {found:.3g} tolerances: {_text(request.content)}")
        elif phase.is_measured(ended) and not is_late:
            phase.done += 1
            phase.done_tokens += request.tokens


async def closed_loop(
    send: Send, phase: Phase, clients: int, clock: Callable[[], float] = time.perf_counter
) -> None:
    """Let clients send one request after another until `phase.until`.

    Each client sends its next request after a response, so a slow server gets fewer requests. A
    refused client waits as long as `Retry-After` says.
    """

    async def client() -> None:
        while (now := clock()) < phase.until:
            if pause := await send(phase, now):
                await asyncio.sleep(min(pause, max(0.0, phase.until - clock())))

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())


async def open_loop(
    send: Send,
    phase: Phase,
    rate: float,
    source: random.Random,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Send `rate` requests a second, as a Poisson process, until `phase.until`; repeat none.

    Latencies begin when a request is due, also for one that is sent late: no coordinated omission.
    """
    due = clock()
    async with asyncio.TaskGroup() as group:
        while (due := due + source.expovariate(rate)) < phase.until:
            await asyncio.sleep(max(0.0, due - clock()))
            group.create_task(send(phase, due))


async def measure(
    url: str, bodies: Sequence[bytes], clients: int, rate: float | None, seconds: float
) -> Phase:
    """Send the bodies in turn, in an open loop where `rate` is given, and count the responses."""
    connections = Connections(url, _MOST_CONNECTIONS)
    send = Sender(connections, cycle([*map(Reference().request, bodies)])).send
    name = f"{clients} clients" if rate is None else f"{rate:g} requests/s"
    start = time.perf_counter()
    phase = Phase(name, start + min(2.0, seconds / 5), start + seconds)
    if rate is None:
        await closed_loop(send, phase, clients)
    else:
        await open_loop(send, phase, rate, random.Random(1))
    await connections.close()
    return phase


def _made_bodies() -> list[bytes]:
    """Return bodies with the sentences of the text that comes with the model."""
    sentences = centre.sentences()
    starts = range(0, len(sentences), _SENTENCES)
    return [orjson.dumps({"sentences": sentences[start:][:_SENTENCES]}) for start in starts]


def _print(phase: Phase) -> None:
    counts = ("answered", "refused", "late", "failed", "lost", "wrong", "compared")
    times = [f"{1e3 * percentile(phase.latencies, percent):.1f}" for percent in (50, 99, 100)]
    rates = (f"{phase.requests_per_second:,.1f}", f"{phase.tokens_per_second:,.0f}")
    values = (getattr(phase, name) for name in counts)
    numbers = [each.total() if isinstance(each, Counter) else each for each in values]
    columns = ("requests/s", "tokens/s", "p50 ms", "p99 ms", "largest ms", *counts)
    print(f"{machine.describe()}\n\n{machine.head('load', *columns)}")
    print(machine.row(phase.name, *rates, *times, *numbers))
    print(*phase.faults, sep="\n", end="")


def main() -> int:
    """Measure and print; fail where something was wrong, or nothing was answered."""
    parser = machine.parser(__doc__)
    parser.add_argument("url", metavar="URL")
    loop = parser.add_mutually_exclusive_group()
    loop.add_argument("--clients", type=int, default=8, help="of a closed loop")
    loop.add_argument("--rate", type=float, help="requests/s of an open loop")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--body", type=argparse.FileType("rb"), metavar="FILE")
    options = parser.parse_args()
    lines = options.body.read().splitlines() if options.body else _made_bodies()
    bodies = [line for line in lines if line.strip()]
    phase = asyncio.run(
        measure(options.url, bodies, options.clients, options.rate, options.seconds)
    )
    _print(phase)
    return int(phase.is_bad or not phase.answered)


if __name__ == "__main__":
    sys.exit(main())
