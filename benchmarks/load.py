"""Load test: many clients, every answer is compared with the network itself.

    python -m benchmarks.load [MODEL] [--clients 200] [--seconds 60] [--text FILE] [--leave 0.1]

Clients send requests of 1 to 40 sentences of 0 to 120 words, for all kinds of outputs and media
types, without a pause. A client that is refused (503 or 429) waits as long as Retry-After says.
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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.machine import describe
from elmo_serve.http.media_types import ENCODERS
from elmo_serve.load_test.connections import Connections
from elmo_serve.load_test.phase import Phase, percentiles
from elmo_serve.load_test.run import closed_loop
from elmo_serve.load_test.sender import Request, Sender
from tests.support.answers import TASK, Answers, Asked, sentences
from tests.support.processes import children, own_memory, shared_memory
from tests.support.servers import SMALL, Running, running

HUNG_SECONDS = 120.0
"""Timeout of each request; the server allows 60 s. Without a response it counts as lost."""

TASK_NAME = "load"
"""The name of the task that the load test registers and uses."""

_WARM_UP = 0.2  # share of the time at the start that does not count as memory growth


@dataclass(slots=True)
class Storm(Phase):
    """Counts over the requests of all clients; `left` were abandoned by their client."""

    left: int = 0


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


async def storm(
    url: str,
    answers: Answers,
    *,
    clients: int,
    seconds: float,
    leave: float = 0.0,
    seed: int = 0,
) -> Storm:
    """Run clients against a server for some seconds and count what happened to their requests.

    A client abandons a share `leave` of its requests.
    """
    async with httpx.AsyncClient(base_url=url, timeout=None) as http:
        (await http.put(f"/tasks/{TASK_NAME}", json=TASK)).raise_for_status()
    source = random.Random(seed)
    connections = Connections(url, clients)
    sender = Sender(connections, random_requests(answers, source), HUNG_SECONDS)

    async def send(phase: Phase, due: float) -> float:
        if source.random() >= leave:
            return await sender.send(phase, due)
        found.left += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(source.uniform(0, 1)):
                return await sender.send(phase, due)
        return 0.0

    found = Storm("storm", until=time.perf_counter() + seconds)
    try:
        await closed_loop(send, found, clients)
    finally:
        await connections.close()
    return found


def random_requests(answers: Answers, source: random.Random) -> Iterator[Request]:
    """Yield requests of 1 to 40 sentences for every kind of output and media type, without end."""
    while True:
        chosen = [source.randrange(len(answers.sentences)) for _ in range(source.randint(1, 40))]
        asked = Asked(tuple(chosen), random_options(source, answers.layer_count))
        yield answers.request(asked, source.choice(list(ENCODERS)))


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


async def _measure(server: Running, answers: Answers, options: argparse.Namespace) -> Storm:
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
    outcome: Storm, memory: Memory, server: Running, seconds: float, options: argparse.Namespace
) -> None:
    p50, _, p99, _ = percentiles(outcome.latencies).values()
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
        ("failed, by status", json.dumps(outcome.failed)),
        ("late (504)", outcome.late),
        ("lost (hung or broken off)", outcome.lost),
        ("refused", outcome.refused.total()),
        ("abandoned by the client", outcome.left),
        ("sentences of those, dropped from the queue", f"{cancelled['queued']:.0f}"),
        ("sentences of those, already running", f"{cancelled['running']:.0f}"),
        ("latency p50 / p99, s", f"{p50:.2f} / {p99:.2f}"),
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
    return 1 if outcome.is_bad or outcome.late else 0


if __name__ == "__main__":
    sys.exit(main())
