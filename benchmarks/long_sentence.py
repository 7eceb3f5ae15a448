"""Small requests beside one very long sentence.

    python -m benchmarks.long_sentence TEXT [--checkpoint FOLDER] [--tokens 35000] [--seconds 40]

Small requests have one sentence of 20 tokens and come one after another, with pauses. The long
sentence is answered as safetensors with all layers. Memory is that of all processes of the server
(proportional set size), its peak less what it was before the sentence. The exit status is 1 when a
target is missed: memory of at most the vectors and 300 MB, and a p99 of at most twice the idle one
and 100 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import orjson

from benchmarks.inputs import checkpoint
from benchmarks.machine import describe
from elmo_serve.load_test.connections import Connections
from elmo_serve.load_test.run import Phase, Request, Sender, percentile
from tests.support.processes import proportional_memory
from tests.support.servers import Running, spawned

_ACCEPT = "application/vnd.safetensors"
_SMALL_TOKENS = 20
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.2, 0.6  # seconds between small requests
_TIMEOUT = 600.0
_MORE_BYTES, _MORE_SECONDS = 300e6, 0.1  # the targets
_SAMPLE_SECONDS = 0.25  # between two looks at the memory

Sentences = list[list[str]]


class Load:
    """The requests of the phases, over one server."""

    def __init__(self, server: Running, sentences: Sentences) -> None:
        self.server = server
        self.connections = Connections(server.url, 2)
        self._source = random.Random(1)
        self._words = [word for sentence in sentences for word in sentence]

    def small(self) -> Request:
        """One sentence of 20 tokens of running text."""
        start = self._source.randrange(len(self._words) - _SMALL_TOKENS)
        return _request([self._words[start : start + _SMALL_TOKENS]])

    def long(self, tokens: int) -> Request:
        """One sentence with all layers."""
        words = self._words * (tokens // len(self._words) + 1)
        return _request([words[:tokens]])

    def sender(self, make: Callable[[], Request]) -> Sender:
        """A sender of such requests."""
        return Sender(self.connections, iter(make, None), _TIMEOUT)

    async def small_until(self, name: str, is_over: Callable[[], bool]) -> Phase:
        """Send small requests one after another."""
        phase, sender = Phase(name), self.sender(self.small)
        while not is_over():
            await sender.send(phase, time.perf_counter())
            await asyncio.sleep(self._source.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))
        return phase

    async def small_for(self, name: str, seconds: float) -> Phase:
        """Send small requests for some seconds."""
        end = time.perf_counter() + seconds
        return await self.small_until(name, lambda: time.perf_counter() > end)


def _request(sentences: Sentences, **options: object) -> Request:
    content = orjson.dumps({"sentences": sentences, **options})
    return Request(content, sum(map(len, sentences)), _ACCEPT, lambda _: None)


async def _beside_long(load: Load, idle: Phase, tokens: int) -> bool:
    before = peak = proportional_memory(load.server.pid)
    phase = Phase("long")
    sending = asyncio.create_task(
        load.sender(lambda: load.long(tokens)).send(phase, time.perf_counter())
    )
    small = asyncio.create_task(load.small_until("beside the long sentence", sending.done))
    while not sending.done():
        peak = max(peak, await asyncio.to_thread(proportional_memory, load.server.pid))
        await asyncio.sleep(_SAMPLE_SECONDS)
    found = await small
    _row(found)
    if not phase.answered:
        print(f"\nThe long sentence was not answered: {phase.faults} {phase.refused}")
        return False
    size, more = phase.received_bytes, peak - before
    bound = 2 * _p99(idle) + _MORE_SECONDS
    print(
        f"\nThe sentence of {tokens:,} tokens took {phase.latencies[0]:.0f} s. Its vectors have "
        f"{size / 1e6:.0f} MB, and the memory of the server rose by {more / 1e6:.0f} MB: "
        f"{(more - size) / 1e6:.0f} MB more (target 300). The p99 beside it is "
        f"{_p99(found) * 1e3:.0f} ms (target {bound * 1e3:.0f})."
    )
    return more - size <= _MORE_BYTES and _p99(found) <= bound


async def _measure(load: Load, options: argparse.Namespace) -> bool:
    await load.small_for("warm-up", 3.0)
    print("| small requests | number | p50 ms | p99 ms | largest ms |\n|---|--:|--:|--:|--:|")
    idle = await load.small_for("idle", options.seconds)
    _row(idle)
    met = await _beside_long(load, idle, options.tokens)
    await load.connections.close()
    return met


def _row(phase: Phase) -> None:
    middle, worst, largest = (
        percentile(phase.latencies, 50),
        _p99(phase),
        max(phase.latencies, default=0.0),
    )
    print(
        f"| {phase.name} | {phase.answered} | {middle * 1e3:.0f} | {worst * 1e3:.0f} "
        f"| {largest * 1e3:.0f} |",
        flush=True,
    )


def _p99(phase: Phase) -> float:
    return percentile(phase.latencies, 99)


def _read(text: Path) -> Sentences:
    lines = text.read_text(encoding="utf-8").splitlines()
    sentences = [line.split() for line in lines if 0 < len(line.split()) <= 120]
    random.Random(2).shuffle(sentences)
    return sentences


def main() -> int:
    """Measure, print, and fail when a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("text", type=Path, help="one tokenised sentence a line")
    parser.add_argument("--checkpoint", type=Path, help="default: random, of the original's size")
    parser.add_argument("--tokens", type=int, default=35_000, help="of the long sentence")
    parser.add_argument("--seconds", type=float, default=40, help="of each phase")
    options = parser.parse_args()
    sentences = _read(options.text)
    with checkpoint(options.checkpoint) as model, ExitStack() as servers:
        print(f"{model.name}; {describe()}\n")
        folder = Path(servers.enter_context(tempfile.TemporaryDirectory()))
        server = servers.enter_context(
            spawned(folder, model=model, request_timeout_seconds=_TIMEOUT)
        )
        met = asyncio.run(_measure(Load(server, sentences), options))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
