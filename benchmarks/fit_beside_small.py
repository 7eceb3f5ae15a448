"""Latency of small requests on an idle server, and while a fit over HTTP runs beside them.

    python -m benchmarks.fit_beside_small [CHECKPOINT] [--seconds 20] [--sentences 3000] [--text F]

One client sends single short sentences with random pauses: for some seconds on an idle server, then
from the start of a fit of a token task until the fit is done or the seconds are over. The table has
the two phases of the fit apart: while its vectors are computed, and while its head is trained. The
target is a p99 of at most twice the idle p99 and one batch of the fit. The exit status is 1 when it
is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
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


async def latencies(
    server: Running, texts: list[list[str]], goes_on: Callable[[], Awaitable[bool]]
) -> list[float]:
    """Return the seconds of small requests while `goes_on` says so."""
    source, wire, found = random.Random(0), Wire(server.url), []
    short = [text for text in texts if 4 <= len(text) <= 12] or texts
    while await goes_on():
        request = post({"sentences": [source.choice(short)], "layers": "top"}, _ACCEPT, 600)
        start = time.perf_counter()
        answered = await wire.ask(request)
        found.append(time.perf_counter() - start)
        assert answered.status == 200, answered.body
        await asyncio.sleep(source.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))
    await wire.close()
    return found


def until(seconds: float) -> Callable[[], Awaitable[bool]]:
    """Return a condition that holds for so many seconds."""
    end = time.monotonic() + seconds

    async def holds() -> bool:
        return time.monotonic() < end

    return holds


async def while_fitting(
    server: Running, texts: list[list[str]], sentences: int, seconds: float
) -> tuple[dict[str, list[float]], float]:
    """Return the latencies in each phase of a fit, and the mean seconds of its batches.

    The fit is cancelled when the time is over.
    """
    small = _mean_batch((0.0, 0.0), _batches(server))  # all batches so far: of an idle server
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

        before = _batches(server)
        embedding = await latencies(server, texts, phase(True))
        after = _batches(server)
        while True:  # the vectors may take longer than was measured
            now = await state()
            if now["progress"] >= 0.5 or now["state"] not in ("queued", "running"):
                break
            await asyncio.sleep(0.5)
        training = await latencies(server, texts, phase(False))
        await client.delete(f"/jobs/{job['id']}")
    count = len(embedding)
    batch = _mean_batch((before[0] + count * small, before[1] + count), after)
    return {"vectors of a fit": embedding, "training of a fit": training}, batch


def p99(found: list[float]) -> float:
    """Return the 99th percentile in seconds."""
    return statistics.quantiles(found, n=100, method="inclusive")[98] if len(found) > 1 else 0.0


def _batches(server: Running) -> tuple[float, float]:
    """Return the seconds of all batches so far, and their number."""
    name = "elmo_batch_duration_seconds"
    return server.metric(f"{name}_sum"), server.metric(f"{name}_count")


def _mean_batch(before: tuple[float, float], after: tuple[float, float]) -> float:
    return (after[0] - before[0]) / max(after[1] - before[1], 1)


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
        phases = {"idle": asyncio.run(latencies(server, texts, until(options.seconds)))}
        fit, batch = asyncio.run(while_fitting(server, texts, options.sentences, options.seconds))
        phases |= fit
    target = _FACTOR * p99(phases["idle"]) + batch
    print(describe(), end="\n\n")
    print("| server | requests | p50 ms | p99 ms |\n|---|--:|--:|--:|")
    for name, found in phases.items():
        middle = statistics.median(found) if found else 0.0
        print(f"| {name} | {len(found)} | {1e3 * middle:.1f} | {1e3 * p99(found):.1f} |")
    print(
        f"\ntarget: twice the idle p99 and a batch of the fit, {1e3 * batch:.1f} ms: "
        f"{1e3 * target:.1f} ms"
    )
    return int(any(p99(found) > target for found in phases.values()))


if __name__ == "__main__":
    sys.exit(main())
