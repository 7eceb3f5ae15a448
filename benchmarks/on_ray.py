"""The cost of Ray Serve before a model, and of a node that is lost.

    python -m benchmarks.on_ray TEXT [--model english] [--rounds 5] [--seconds 6]

Ray's processes and one replica run on the cores of the server that they are compared with. The
first table sends requests of 1,000 tokens to `elmo serve` and to Ray Serve in turns; the second one
has the processor time that all processes of each take for such a request. The third one asks both
for `/health/live`, which needs no model. The fourth one kills one of three nodes under load of
elmo-client, and prints the longest time that a call took; a call that raises, or returns wrong
vectors, has failed.
"""

# ruff: noqa: PLC0415 - Ray is optional; and it must be loaded before torch and h5py, whose regular
# expressions in C++ break its own.

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx

_KILLS = 2
_CLIENTS = 12
_PROBES = 300


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path, help="one tokenised sentence a line")
    parser.add_argument("--model", default="english")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6, help="of each measurement")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parser.parse_args()
    if importlib.util.find_spec("ray") is None:
        print("Ray is not installed: pip install 'elmo-serve[ray]'", file=sys.stderr)
        return 2
    import ray  # noqa: F401 - see above

    from benchmarks.machine import describe

    print(describe())
    for name in arguments.only:
        with tempfile.TemporaryDirectory() as folder:
            PARTS[name](Path(folder), arguments)
    return 0


def cost(folder: Path, arguments: argparse.Namespace) -> None:
    """Print tokens/s and probes/s of `elmo serve` and of Ray Serve, in turns."""
    from benchmarks.replicas import tokens_per_second
    from tests.support.processes import below
    from tests.support.ray_cluster import cluster
    from tests.support.ray_service import served
    from tests.support.servers import running

    with (
        running(folder / "direct", model=arguments.model) as server,
        cluster(2),
        served(folder, model=arguments.model, cpus=2) as ray_url,
    ):
        urls = {"elmo serve": server.url, "Ray Serve": ray_url}
        for url in urls.values():
            tokens_per_second(url, arguments.text, arguments.seconds)  # words become known

        def rate(url: str) -> float:
            return tokens_per_second(url, arguments.text, arguments.seconds)

        _table("tokens/s", urls, arguments.rounds, rate)
        print("\n| processor time, ms a request of 1,000 tokens | |\n|---|--:|")
        direct = below(server.pid)
        pids = {"elmo serve": direct, "Ray Serve": below(os.getpid()) - direct - {os.getpid()}}
        for name, url in urls.items():
            used = _processor_time(pids[name], lambda: rate(url) * arguments.seconds)  # noqa: B023
            print(f"| {name} | {1e6 * used:.1f} |", flush=True)
        _table("probes/s", urls, arguments.rounds, _probes_per_second)


def _table(unit: str, urls: dict[str, str], rounds: int, rate: Callable[[str], float]) -> None:
    print(f"\n| round | {', '.join(urls)} in {unit} | | ratio |\n|---|--:|--:|--:|")
    ratios = []
    for number in range(rounds):
        names = list(urls) if number % 2 else list(reversed(urls))
        found = {name: rate(urls[name]) for name in names}
        direct, on_ray = (found[name] for name in urls)
        ratios.append(on_ray / direct)
        print(f"| {number + 1} | {direct:,.0f} | {on_ray:,.0f} | {ratios[-1]:.1%} |", flush=True)
    print(f"| median | | | {statistics.median(ratios):.1%} |", flush=True)


def _processor_time(pids: set[int], tokens: Callable[[], float]) -> float:
    """Return the seconds of processor time that the processes take for each token."""
    from tests.support.processes import processor_seconds

    before = sum(map(processor_seconds, pids))
    count = tokens()
    return (sum(map(processor_seconds, pids)) - before) / count


def _probes_per_second(url: str) -> float:
    with httpx.Client(base_url=url) as client:
        start = time.perf_counter()
        for _ in range(_PROBES):
            assert client.get("/health/live").status_code == 200
        return _PROBES / (time.perf_counter() - start)


def failover(folder: Path, _arguments: argparse.Namespace) -> None:
    """Print the longest time of a call while one of three nodes is killed."""
    from tests.support.answers import Answers
    from tests.support.ray_cluster import add_node, cluster, lose_node
    from tests.support.ray_service import SENTENCES, RepeatingLoad, served
    from tests.support.servers import SMALL

    answers = Answers(str(SMALL), SENTENCES)
    print("\n| one of three nodes | longest call, s | answered | failed |\n|---|--:|--:|--:|")
    with cluster(1, 1, 1) as nodes, served(folder, min_replicas=3, max_replicas=3) as url:
        load = RepeatingLoad(url, answers)
        with load.under_way(_CLIENTS):
            for event in ["nothing", *["killed"] * _KILLS]:
                before, load.slowest = load.answered, 0.0
                if event == "killed":
                    lose_node(nodes)
                load.until_answered(20 * _CLIENTS)
                answered = load.answered - before
                print(f"| {event} | {load.slowest:.2f} | {answered:,} | {load.failed} |")
                if event == "killed":
                    add_node(nodes, 1)
                    load.until_answered(20 * _CLIENTS)


PARTS = {"cost": cost, "failover": failover}


if __name__ == "__main__":
    sys.exit(main())
