"""Load test: many clients, every answer is compared with the network itself.

    python -m benchmarks.load [MODEL] [--clients 200] [--seconds 60] [--text FILE] [--leave 0.1]

Clients send requests of 1 to 40 sentences of 0 to 120 words, for all kinds of outputs and media
types, without a pause. A request that is refused with Retry-After (503 or 429) is sent again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson

from benchmarks.machine import describe
from elmo_serve.http.media_types import ENCODERS
from tests.support.answers import TASK, Answers, Array, Asked, sentences
from tests.support.processes import children, own_memory, shared_memory
from tests.support.servers import SMALL, Running, running

HUNG_SECONDS = 120.0
"""Seconds after which a request without an answer counts as hung; the server's timeout is 60 s."""

TASK_NAME = "load"
"""The name of the task that the load test registers and uses."""

_WARM_UP = 0.2  # share of the time at the start that does not count as memory growth


@dataclass(slots=True)
class Outcome:
    """Counts over the requests of all clients."""

    answered: int = 0
    tokens: int = 0
    wrong: int = 0
    worst: float = 0.0  # largest difference, in multiples of the tolerance
    refused: int = 0  # with Retry-After, and sent again
    left: int = 0  # abandoned by the client
    lost: int = 0  # hung, or the connection broke
    statuses: Counter[int] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """Responses that are neither vectors nor a refusal with Retry-After."""
        return sum(count for status, count in self.statuses.items() if status != 200)


class Client:
    """Sends one request after another."""

    def __init__(
        self, http: httpx.AsyncClient, answers: Answers, outcome: Outcome, source: random.Random
    ) -> None:
        self._http = http
        self._answers = answers
        self._outcome = outcome
        self._source = source
        self._media = list(ENCODERS)

    async def run(self, until: float, leave: float) -> None:
        """Send requests until that time of the loop's clock; abandon a share `leave` of them."""
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            work = self.ask(self.make())
            if self._source.random() < leave:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(work, self._source.uniform(0, 1))
                self._outcome.left += 1
            else:
                await work

    def make(self) -> Asked:
        """Make a random request."""
        count = self._source.randint(1, 40)
        chosen = tuple(self._source.randrange(len(self._answers.sentences)) for _ in range(count))
        return Asked(chosen, random_options(self._source, self._answers.layer_count))

    async def ask(self, asked: Asked) -> bool:
        """Send a request until it is not refused; return whether it was answered with vectors."""
        media = self._source.choice(self._media)
        body = {"sentences": [self._answers.sentences[index] for index in asked.sentences]}
        content = orjson.dumps(body | asked.options)
        while True:
            start = time.perf_counter()
            try:
                async with asyncio.timeout(HUNG_SECONDS):
                    response = await self._http.post(
                        "/embed",
                        content=content,
                        headers={"accept": media, "content-type": "application/json"},
                    )
            except (TimeoutError, httpx.HTTPError) as error:
                self._outcome.lost += 1
                self._outcome.faults.append(repr(error))
                return False
            if response.status_code in (429, 503) and "retry-after" in response.headers:
                self._outcome.refused += 1
                await asyncio.sleep(float(response.headers["retry-after"]))
                continue
            self._outcome.statuses[response.status_code] += 1
            if response.status_code != 200:
                self._outcome.faults.append(response.text[:300])
                return False
            self._outcome.latencies.append(time.perf_counter() - start)
            await self._check(asked, ENCODERS[media].decode, response.content)
            return True

    async def _check(
        self, asked: Asked, decode: Callable[[bytes], list[Array]], content: bytes
    ) -> None:
        outcome = self._outcome
        outcome.answered += 1
        worst = await furthest(self._answers, asked, decode, content)
        outcome.tokens += sum(len(self._answers.sentences[index]) for index in asked.sentences)
        outcome.worst = max(outcome.worst, worst)
        if worst > 1:
            outcome.wrong += 1
            outcome.faults.append(f"{worst:.1f} times the tolerance: {asked.options}")


def random_options(source: random.Random, layer_count: int) -> dict[str, Any]:
    """Return random fields of a request other than its sentences, for every kind of output."""
    every = range(layer_count)
    options: dict[str, Any] = source.choice(
        [
            {},
            {"layers": "top"},
            {"layers": "average"},
            {"layers": source.sample(every, 2)},
            {"task": TASK_NAME},
            {
                "mix": {
                    "weights": [source.uniform(-2, 2) for _ in every],
                    "gamma": source.uniform(0.1, 3),
                    "layer_norm": source.random() < 0.5,
                }
            },
        ]
    )
    options = dict(options)
    if source.random() < 0.4:
        options["pooling"] = source.choice(["mean", "max"])
    if source.random() < 0.25:
        options["dtype"] = "float16"
    return options


async def furthest(
    answers: Answers, asked: Asked, decode: Callable[[bytes], list[Array]], content: bytes
) -> float:
    """Return the largest difference of an answer, in multiples of the tolerance."""
    found = await asyncio.to_thread(decode, content)
    if len(found) != len(asked.sentences):
        return float("inf")
    worst = 0.0
    for array, index in zip(found, asked.sentences, strict=True):
        # JSON has no float16: its digits are those of the float16 numbers.
        asked_for = asked.options.get("dtype", "float32")
        vectors = array.astype(asked_for) if decode is _decode_json else array
        worst = max(worst, answers.difference(vectors, index, asked.options))
        await asyncio.sleep(0)
    return worst


_decode_json = ENCODERS["application/json"].decode


async def storm(
    url: str,
    answers: Answers,
    *,
    clients: int,
    seconds: float,
    leave: float = 0.0,
    seed: int = 0,
) -> Outcome:
    """Run clients against a server for some seconds and count what happened to their requests."""
    outcome = Outcome()
    # Close idle connections before the server does: it might at the moment of the next request.
    limits = httpx.Limits(
        max_connections=clients, max_keepalive_connections=clients, keepalive_expiry=2
    )
    async with httpx.AsyncClient(base_url=url, timeout=None, limits=limits) as http:
        put = await http.put(f"/tasks/{TASK_NAME}", json=TASK)
        put.raise_for_status()
        until = asyncio.get_running_loop().time() + seconds
        everyone = [
            Client(http, answers, outcome, random.Random(seed * 10_007 + number))
            for number in range(clients)
        ]
        await asyncio.gather(*(client.run(until, leave) for client in everyone))
    return outcome


class Memory:
    """Samples of the memory of every process of a server, every half second by default."""

    def __init__(self, server: Running, every: float = 0.5) -> None:
        self._pid = server.pid
        self._every = every
        self._samples: dict[str, list[tuple[float, float]]] = {}

    async def watch(self) -> None:
        """Take samples until cancelled."""
        start = time.monotonic()
        while True:
            pids = {"front": [self._pid], **children(self._pid)}
            for role in ("front", "worker", "json"):
                for pid in pids[role]:
                    row = self._samples.setdefault(f"{role} {pid}", [])
                    row.append((time.monotonic() - start, own_memory(pid)))
            row = self._samples.setdefault("answers, shared by all", [])
            row.append((time.monotonic() - start, shared_memory(self._pid)))
            await asyncio.sleep(self._every)

    def rows(self, seconds: float) -> list[tuple[str, float, float, float, float]]:
        """Return role, MB after warm-up, MB at the end, most, and growth in MB a minute."""
        rows = []
        for name, samples in self._samples.items():
            warm = [(at, size) for at, size in samples if _WARM_UP * seconds <= at <= seconds]
            if len(warm) < 3:
                continue
            at, sizes = zip(*warm, strict=True)
            slope = statistics.linear_regression(at, sizes).slope * 60
            rows.append((name.rstrip("0123456789 "), sizes[0], sizes[-1], max(sizes), slope))
        return rows


async def _measure(server: Running, answers: Answers, options: argparse.Namespace) -> Outcome:
    memory = Memory(server)
    watching = asyncio.create_task(memory.watch())
    start = time.perf_counter()
    outcome = await storm(
        server.url,
        answers,
        clients=options.clients,
        seconds=options.seconds,
        leave=options.leave,
        seed=options.seed,
    )
    seconds = time.perf_counter() - start
    watching.cancel()
    _print(outcome, memory, server, seconds, options)
    return outcome


def _print(
    outcome: Outcome, memory: Memory, server: Running, seconds: float, options: argparse.Namespace
) -> None:
    centiles = statistics.quantiles(outcome.latencies or [0, 0], n=100)
    cancelled = {
        stage: server.metric("elmo_cancelled_sentences_total", stage=stage)
        for stage in ("queued", "running")
    }
    batches = server.metric("elmo_batch_tokens_count") or 1
    print(f"{Path(options.model).name}, {options.clients} clients, {seconds:.0f} s; {describe()}\n")
    rows: list[tuple[str, object]] = [
        ("requests answered", outcome.answered),
        ("tokens a second", f"{outcome.tokens / seconds:,.0f}"),
        ("wrong answers", outcome.wrong),
        ("largest difference, in tolerances", f"{outcome.worst:.3f}"),
        ("other statuses than 200", json.dumps(outcome.statuses - Counter({200: 1 << 60}))),
        ("lost (hung or broken off)", outcome.lost),
        ("refused with Retry-After and sent again", outcome.refused),
        ("abandoned by the client", outcome.left),
        ("sentences of those, dropped from the queue", f"{cancelled['queued']:.0f}"),
        ("sentences of those, already running", f"{cancelled['running']:.0f}"),
        ("latency p50 / p99, s", f"{centiles[49]:.2f} / {centiles[98]:.2f}"),
        ("tokens in a batch", f"{server.metric('elmo_batch_tokens_sum') / batches:.0f}"),
        ("padding", f"{server.metric('elmo_batch_padding_ratio_sum') / batches:.1%}"),
    ]
    for role, first, last, most, slope in memory.rows(options.seconds):
        name = f"memory of {role}: warm / last / most, MB"
        rows.append((name, f"{first:.0f} / {last:.0f} / {most:.0f} ({slope:+.1f} a minute)"))
    print("| what | found |\n|---|--:|")
    for what, found in rows:
        print(f"| {what} | {found} |")
    for fault in outcome.faults[:5]:
        print(f"\n{fault}", file=sys.stderr)


def main() -> int:
    """Measure, print, and fail when an answer was wrong, lost or an error."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", nargs="?", default=str(SMALL))
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--text", type=Path)
    parser.add_argument("--sentences", type=int, default=1_000, help="distinct ones")
    parser.add_argument("--leave", type=float, default=0.0, help="share of requests left early")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    made = sentences(options.text, options.sentences, random.Random(options.seed))
    answers = Answers(options.model, made)
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder), model=options.model, tasks=Path(folder, "tasks")) as server,
    ):
        outcome = asyncio.run(_measure(server, answers, options))
    return 1 if outcome.wrong or outcome.failed or outcome.lost else 0


if __name__ == "__main__":
    sys.exit(main())
