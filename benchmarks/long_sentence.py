"""Small requests beside one very long sentence.

    python -m benchmarks.long_sentence TEXT [--checkpoint FOLDER] [--tokens 35000] [--seconds 40]

Small requests have one sentence of 20 tokens and come one after another, with pauses. The long
sentence is answered as safetensors with all layers. Memory is that of all processes of the server
(proportional set size), its peak less what it was before the sentence. The exit status is 1 when a
target is missed: memory of at most the vectors and 300 MB, and a p99 of at most twice the idle one
and 100 ms.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import cycle, islice, repeat
from pathlib import Path

import orjson

from benchmarks import machine
from benchmarks.comparison import Request
from benchmarks.connections import Connections
from benchmarks.fairness import one_after_another
from benchmarks.inputs import checkpoint
from benchmarks.load import Phase, Sender, percentile
from tests.support.processes import proportional_memory
from tests.support.servers import Running, spawned

_ACCEPT = "application/vnd.safetensors"
_SMALL_TOKENS = 20
_PAUSES = (0.2, 0.6)  # seconds between small requests, least and most
_TIMEOUT = 600.0
_MORE_BYTES, _MORE_SECONDS = 300e6, 0.1  # the targets
_SAMPLE_SECONDS = 0.25  # between two looks at the memory


class Load:
    """Requests of running text, over one server."""

    def __init__(self, server: Running, words: list[str]) -> None:
        self.connections = Connections(server.url, 2)
        self.largest = 0  # bytes of a response
        self._source = random.Random(1)
        self._words = words

    def sender(self, tokens: int) -> Sender:
        """Return a sender of sentences of the text, from random places."""
        return Sender(self.connections, map(self._request, repeat(tokens)), _TIMEOUT)

    def _request(self, tokens: int) -> Request:
        start = self._source.randrange(len(self._words))
        words = [*islice(cycle(self._words), start, start + tokens)]
        content = orjson.dumps({"sentences": [words]})
        return Request(content, tokens, _ACCEPT, self._note)

    def _note(self, content: bytes) -> None:
        self.largest = max(self.largest, len(content))

    async def small_until(self, name: str, is_over: Callable[[], bool]) -> Phase:
        """Send small requests one after another, and print their row."""
        phase = Phase(name)
        await one_after_another(self.sender(_SMALL_TOKENS).send, phase, is_over, _PAUSES)
        times = [1e3 * percentile(phase.latencies, rank) for rank in (50, 99, 100)]
        print(machine.row(name, phase.answered, *(f"{each:.0f}" for each in times)))
        return phase


async def _measure(server: Running, words: list[str], tokens: int, seconds: float) -> bool:
    load, long = Load(server, words), Phase("long")
    print(machine.head("small requests", "number", "p50 ms", "p99 ms", "largest ms"))
    for name, part in (("warm-up", 3.0), ("idle", seconds)):
        waiting = asyncio.create_task(asyncio.sleep(part))
        idle = await load.small_until(name, waiting.done)
    before = peak = proportional_memory(server.pid)
    sending = asyncio.create_task(load.sender(tokens).send(long, time.perf_counter()))
    small = asyncio.create_task(load.small_until("beside the long sentence", sending.done))
    while not sending.done():
        peak = max(peak, await asyncio.to_thread(proportional_memory, server.pid))
        await asyncio.sleep(_SAMPLE_SECONDS)
    beside = percentile((await small).latencies, 99)
    await load.connections.close()
    if not long.answered:
        print(f"\nThe long sentence was not answered: {long.faults} {long.refused}")
        return False
    size, more = load.largest, peak - before
    bound = 2 * percentile(idle.latencies, 99) + _MORE_SECONDS
    print(
        f"\nThe sentence of {tokens:,} tokens took {long.latencies[0]:.0f} s. Its vectors have "
        f"{size / 1e6:.0f} MB, and the memory of the server rose by {more / 1e6:.0f} MB: "
        f"{(more - size) / 1e6:.0f} MB more (target 300). The p99 beside it is "
        f"{beside * 1e3:.0f} ms (target {bound * 1e3:.0f})."
    )
    return more - size <= _MORE_BYTES and beside <= bound


def main() -> int:
    """Measure, print, and fail when a target was missed."""
    parser = machine.parser(__doc__)
    parser.add_argument("text", type=Path, help="tokenised")
    parser.add_argument("--checkpoint", type=Path, help="default: random, of the original's size")
    parser.add_argument("--tokens", type=int, default=35_000, help="of the long sentence")
    parser.add_argument("--seconds", type=float, default=40, help="of small requests alone")
    options = parser.parse_args()
    words = options.text.read_text(encoding="utf-8").split()
    with checkpoint(options.checkpoint) as model, tempfile.TemporaryDirectory() as folder:
        print(f"{model.name}; {machine.describe()}\n")
        with spawned(Path(folder), model=model, request_timeout_seconds=_TIMEOUT) as server:
            met = asyncio.run(_measure(server, words, options.tokens, options.seconds))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
