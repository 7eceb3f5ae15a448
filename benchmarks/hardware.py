"""Which hardware a rate of small requests takes: the table of docs/deploy.md, ready to paste.

    python -m benchmarks.hardware TEXT [--seconds 30] [--models english original small]

Each row is a server of its own on two cores with the default settings, which wrk shares. Requests
are 20 tokens of running text, all layers, as safetensors. `requests/s` is the peak: 16
clients without pauses. p99 and processor time are taken at half of it, from 64 clients that pause.
Memory is the proportional set size of all processes, when ready and at its highest. The last
column has the cores that keep a rate at half load. `original` and `small` are random networks of
the published sizes; a CPU without VNNI refuses int8. A row takes 15 seconds and twice
`--seconds`.
"""

import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import orjson

from benchmarks import machine, wrk
from benchmarks.wrk import Load
from tests.support.checkpoints import PUBLISHED_FILTERS, original_size_pair, write_pair
from tests.support.processes import below, processor_seconds, proportional_memory
from tests.support.servers import Running, spawned

_TOKENS = 20
_CORES = 2
_CLIENTS, _PAUSING_CLIENTS = 16, 64
_WARM_SECONDS = 4
_SAMPLE_SECONDS = 0.5  # between two looks at the memory
_RATES = (10, 50, 200)
_ACCEPT = "application/vnd.safetensors"
_MODELS: dict[str, Callable[[Path], str | Path]] = {
    "english": lambda _: "english",
    "original": original_size_pair,
    "small": partial(
        write_pair,
        gain=0.7,
        cell=1024,
        projection=128,
        filters=PUBLISHED_FILTERS,
        char_width=16,
    ),
}


def row(name: str, precision: str, server: Running, bodies: list[bytes], seconds: int) -> str:
    """Measure one server and return its row."""
    ask = partial(wrk.load, server.url, bodies, _ACCEPT)
    rest = proportional_memory(server.pid)
    ask(_CLIENTS, _WARM_SECONDS)
    peak, memory = _watched(server.pid, partial(ask, _CLIENTS, seconds))
    before = _processor_seconds(server.pid)
    half = ask(_PAUSING_CLIENTS, seconds, pause=2 * _PAUSING_CLIENTS / peak.rate)
    spent = (_processor_seconds(server.pid) - before) / half.requests
    if errors := peak.errors + half.errors:
        raise RuntimeError(f"{errors} requests failed:\n{server.log}")
    cores = (f"{math.ceil(2 * _CORES * rate / peak.rate)}" for rate in _RATES)
    cells = (
        *(f"`{name}`", precision, f"{peak.rate:,.0f}", f"{half.p99:,.0f}", f"{1e3 * spent:,.0f}"),
        *(f"{rest / 1e6:,.0f}, {memory / 1e6:,.0f}", ", ".join(cores)),
    )
    return machine.row(*cells)


def _watched(pid: int, measure: Callable[[], Load]) -> tuple[Load, float]:
    """Return the result of a load, and the highest memory of the server meanwhile in bytes."""
    highest = 0.0
    with ThreadPoolExecutor(1) as thread:
        loading = thread.submit(measure)
        while not loading.done():
            highest = max(highest, proportional_memory(pid))
            time.sleep(_SAMPLE_SECONDS)
    return loading.result(), highest


def _processor_seconds(pid: int) -> float:
    return sum(map(processor_seconds, below(pid)))


def _bodies(text: Path) -> list[bytes]:
    words = text.read_text(encoding="utf-8").split()[:200_000]
    starts = range(0, max(1, len(words) - _TOKENS), _TOKENS)
    return [orjson.dumps({"sentences": [words[start : start + _TOKENS]]}) for start in starts]


@contextmanager
def _serving(name: str, precision: str) -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as folder:
        model = _MODELS[name](Path(folder, name))
        with spawned(Path(folder, "server"), model=model, precision=precision) as server:
            yield server


def main() -> int:
    """Print the table."""
    parser = machine.parser(__doc__)
    parser.add_argument("text", type=Path, help="tokenised, 200,000 tokens are used")
    parser.add_argument("--seconds", type=int, default=30, help="of a load; two for each row")
    parser.add_argument("--models", nargs="+", choices=_MODELS, default=list(_MODELS))
    parser.add_argument("--precisions", nargs="+", default=["float32", "int8"])
    options = parser.parse_args()
    if wrk.is_missing():
        return 2
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_CORES])
    bodies = _bodies(options.text)
    print(f"{machine.describe()}\n")
    columns = ("requests/s", "p99 ms at half", "processor ms a request", "MB at rest, under load")
    cores = f"cores for {', '.join(map(str, _RATES))}/s"
    print(machine.head("model", "precision", *columns, cores, names=2), flush=True)
    for name in options.models:
        for precision in options.precisions:
            try:
                with _serving(name, precision) as server:
                    print(row(name, precision, server, bodies, options.seconds), flush=True)
            except RuntimeError as error:
                if "VNNI" not in str(error):
                    raise
                print(f"| `{name}` | {precision} | refused" + " |" * 5)
    return 0


if __name__ == "__main__":
    sys.exit(main())
