"""Tokens a second through a server on a device, beside what its worker computes.

    python -m benchmarks.gpu.service TEXT [--checkpoint PATH] [--precision bfloat16] [--seconds 4]

Each client is a process with one connection, which sends its next request when the last one is
answered: sentences of the text in random order, answered as npz. "worker" is the share of the time
in which the worker has a batch; where it is small, the front or the clients are the limit. Words
are known after the first line, which is not printed.
"""

from __future__ import annotations

import http.client
import multiprocessing
import random
import sys
import tempfile
import time
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import orjson

from benchmarks import inputs, machine
from tests.support.servers import Running, spawned

_HEADERS = {"Content-Type": "application/json", "Accept": "application/x-npz"}
_COMPUTED = "elmo_batch_duration_seconds_sum"
_POOLED = {"layers": "top", "pooling": "mean"}
_LOADS: tuple[tuple[str, dict[str, str], int, int], ...] = (
    ("mean", _POOLED, 8, 64),
    ("mean", _POOLED, 24, 64),
    ("mean", _POOLED, 16, 256),
    ("all layers", {"layers": "all"}, 8, 64),
    ("all layers", {"layers": "all"}, 16, 64),
    ("mean", _POOLED, 1, 1),
    ("mean", _POOLED, 32, 1),
)
_Result = tuple[int, list[float]]


def client(port: int, bodies: list[tuple[bytes, int]], until: float, found: Queue[_Result]) -> None:
    """Send bodies in turn until a time; give back the tokens and the seconds of each request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    random.shuffle(bodies)
    tokens = 0
    latencies: list[float] = []
    while time.time() < until:
        body, count = bodies[len(latencies) % len(bodies)]
        start = time.time()
        connection.request("POST", "/embed", body, _HEADERS)
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise RuntimeError(f"status {response.status}")
        latencies.append(time.time() - start)
        tokens += count
    found.put((tokens, latencies))


def load(
    server: Running, bodies: list[tuple[bytes, int]], clients: int, seconds: float
) -> tuple[float, list[float], float]:
    """Return tokens a second, the seconds of each request, and the share of the worker."""
    context = multiprocessing.get_context("fork")  # this process has no context of a device
    found: Any = context.Queue()
    port, before, start = int(server.url.rpartition(":")[2]), server.metric(_COMPUTED), time.time()
    children = [
        context.Process(target=client, args=(port, bodies, start + seconds, found), daemon=True)
        for _ in range(clients)
    ]
    for child in children:
        child.start()
    results = [found.get(timeout=120) for _ in children]
    passed = time.time() - start
    latencies = sorted(each for _, own in results for each in own)
    share = (server.metric(_COMPUTED) - before) / passed
    return sum(tokens for tokens, _ in results) / passed, latencies, share


def main() -> int:
    """Print the table."""
    parser = machine.parser(__doc__)
    parser.add_argument("text", type=Path, help="one tokenised sentence a line")
    parser.add_argument("--checkpoint", type=Path, help="default: random, of the original's size")
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--device", default="cuda:0", help="cpu tries the program out")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each line")
    options = parser.parse_args()
    text = inputs.read(options.text)
    random.Random(1).shuffle(text)
    with (
        inputs.checkpoint(options.checkpoint) as model,
        tempfile.TemporaryDirectory() as folder,
        spawned(
            Path(folder), model=model, devices=options.device, precision=options.precision
        ) as server,
    ):
        print(f"{model.name}, {options.precision} on {options.device}; {machine.describe()}\n")
        columns = ("tokens/s", "p50 ms", "p99 ms", "worker")
        print(machine.head("vectors", "clients", "sentences", *columns))
        for number, (name, output, clients, rows) in enumerate((_LOADS[0], *_LOADS)):
            bodies = []
            for start in range(0, max(1, len(text) - rows), rows):
                own = text[start : start + rows]
                bodies.append((orjson.dumps({"sentences": own, **output}), sum(map(len, own))))
            rate, latencies, share = load(server, bodies, clients, options.seconds)
            p50, p99 = (1e3 * latencies[int(len(latencies) * part)] for part in (0.5, 0.99))
            if number:
                cells = (f"{rate:,.0f}", f"{p50:.1f}", f"{p99:.1f}", f"{share:.0%}")
                print(machine.row(name, clients, rows, *cells), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
