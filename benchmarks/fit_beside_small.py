"""Latency of small requests on an idle server, and while a fit over HTTP runs beside them.

    python -m benchmarks.fit_beside_small [CHECKPOINT] [--seconds 20] [--sentences 3000] [--text F]

One client sends single short sentences with random pauses: for some seconds on an idle server, then
from the start of a fit of a token task until the fit is done or the seconds are over. The table has
the two phases of the fit apart: while its vectors are computed, and while its head is trained.

The target is a p99 of at most twice the idle p99 and one batch of the fit. The batches of a fit are
of similar tokens but not of similar time: its sentences come by length, and the time steps of long
ones take longest. So each request is compared with the mean batch of the fit about the time when it
was sent: what it took beyond that batch must be at most twice the idle p99, at p99. The exit status
is 1 when that is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.machine import describe
from benchmarks.wire import Wire, post
from tests.support.answers import sentences as made_sentences
from tests.support.servers import SMALL, Running, running

_ACCEPT = "application/vnd.safetensors"
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.01, 0.05  # seconds between small requests
_FACTOR = 2.0  # of the idle p99
_INFER = re.compile(rb"infer;dur=([0-9.]+)")
_IDLE, _EMBEDDING, _TRAINING = "idle", "vectors of a fit", "training of a fit"
_WINDOW = 10  # requests whose batches are taken together


@dataclass(frozen=True, slots=True)
class Sample:
    """A small request: its seconds, those of its own batch, and all batches so far after it."""

    seconds: float
    own: float
    batches: tuple[float, float]


async def latencies(
    server: Running, texts: list[list[str]], goes_on: Callable[[], Awaitable[bool]]
) -> list[Sample]:
    """Return the small requests while `goes_on` says so."""
    source, wire, found = random.Random(0), Wire(server.url), []
    short = [text for text in texts if 4 <= len(text) <= 12] or texts
    while await goes_on():
        request = post({"sentences": [source.choice(short)], "layers": "top"}, _ACCEPT, 600)
        start = time.perf_counter()
        answered = await wire.ask(request)
        seconds = time.perf_counter() - start
        assert answered.status == 200, answered.body
        infer = _INFER.search(answered.head)
        assert infer is not None, answered.head
        found.append(Sample(seconds, float(infer[1]) / 1e3, _batches(server)))
        await asyncio.sleep(source.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))
    await wire.close()
    return found


def mean_batch(samples: list[Sample]) -> float:
    """Return the mean seconds of the batches of a fit during requests one after another."""
    if not samples:
        return 0.0
    own = samples[1:]
    seconds = samples[-1].batches[0] - samples[0].batches[0] - sum(each.own for each in own)
    count = samples[-1].batches[1] - samples[0].batches[1] - len(own)
    return seconds / count if count else 0.0


def beyond_the_batch(samples: list[Sample]) -> list[float]:
    """Return the seconds that each request took beyond the mean batch of the fit about its time."""
    found = []
    for number, sample in enumerate(samples):
        first = min(max(0, number - _WINDOW // 2), max(0, len(samples) - _WINDOW - 1))
        found.append(sample.seconds - mean_batch(samples[first : first + _WINDOW + 1]))
    return found


def until(seconds: float) -> Callable[[], Awaitable[bool]]:
    """Return a condition that holds for so many seconds."""
    end = time.monotonic() + seconds

    async def holds() -> bool:
        return time.monotonic() < end

    return holds


async def while_fitting(
    server: Running, texts: list[list[str]], sentences: int, seconds: float
) -> dict[str, list[Sample]]:
    """Return the small requests in each phase of a fit; it is cancelled when the time is over."""
    examples = [
        {"tokens": text, "labels": [word[-1:] or "-" for word in text]}
        for text in texts[:sentences]
        if text
    ]
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        body = {"kind": "token", "examples": examples}
        job = (await client.post("/tasks/bench/fit", json=body)).raise_for_status().json()

        async def state() -> dict[str, Any]:
            found: dict[str, Any] = (await client.get(f"/jobs/{job['id']}")).json()
            return found

        def phase(is_embedding: bool) -> Callable[[], Awaitable[bool]]:
            in_time = until(seconds)

            async def holds() -> bool:
                now = await state()
                runs = now["state"] in ("queued", "running")
                return runs and await in_time() and (now["progress"] < 0.5) == is_embedding

            return holds

        embedding = await latencies(server, texts, phase(True))
        while True:  # the vectors may take longer than was measured
            now = await state()
            if now["progress"] >= 0.5 or now["state"] not in ("queued", "running"):
                break
            await asyncio.sleep(0.5)
        training = await latencies(server, texts, phase(False))
        await client.delete(f"/jobs/{job['id']}")
    return {_EMBEDDING: embedding, _TRAINING: training}


def p99(found: list[float]) -> float:
    """Return the 99th percentile in seconds."""
    return statistics.quantiles(found, n=100, method="inclusive")[98] if len(found) > 1 else 0.0


def _batches(server: Running) -> tuple[float, float]:
    """Return the seconds of all batches so far, and their number."""
    name = "elmo_batch_duration_seconds"
    return server.metric(f"{name}_sum"), server.metric(f"{name}_count")


def main() -> int:
    """Print the table; return 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("checkpoint", nargs="?", default=str(SMALL))
    parser.add_argument("--seconds", type=float, default=20.0, help="of each phase, at most")
    parser.add_argument("--sentences", type=int, default=3_000, help="of the fit")
    parser.add_argument("--text", type=Path, help="tokenised sentences, one a line")
    options = parser.parse_args()
    texts = made_sentences(options.text, options.sentences, random.Random(0))
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder), model=options.checkpoint, tasks=Path(folder) / "tasks") as server,
    ):
        phases = {_IDLE: asyncio.run(latencies(server, texts, until(options.seconds)))}
        phases |= asyncio.run(while_fitting(server, texts, options.sentences, options.seconds))
    target = _FACTOR * p99([sample.seconds for sample in phases[_IDLE]])
    print(describe(), end="\n\n")
    print("| server | requests | p50 ms | p99 ms | p99 beyond a batch of the fit |")
    print("|---|--:|--:|--:|--:|")
    is_met = True
    for name, samples in phases.items():
        found = [sample.seconds for sample in samples] or [0.0]
        beyond = beyond_the_batch(samples) if name == _EMBEDDING else found
        middle = statistics.median(found)
        print(
            f"| {name} | {len(samples)} | {1e3 * middle:.1f} | {1e3 * p99(found):.1f} "
            f"| {1e3 * p99(beyond):.1f} |"
        )
        is_met = is_met and p99(beyond) <= target
    mean = mean_batch(phases[_EMBEDDING])
    print(f"\nmean batch of the fit: {1e3 * mean:.1f} ms")
    print(f"target: twice the idle p99 beyond a batch of the fit: {1e3 * target:.1f} ms")
    return int(not is_met)


if __name__ == "__main__":
    sys.exit(main())
