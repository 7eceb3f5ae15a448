"""The cost of HAProxy before a server, and of a replica that is lost.

    python -m benchmarks.replicas TEXT [--model english] [--rounds 5] [--seconds 6]

HAProxy has the project's configuration and runs on the cores of the server. The first table sends
requests of 1,000 tokens to a server with a model, directly and through the proxy in turns; below it
stands the processor time of a request, which other work on the machine changes less. The second
table has no model: an echo worker answers zeros to the clients of wrk. The third one kills one of
two replicas under load, or restarts it, and prints the longest time that a request took and how
many requests failed.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks import echo
from benchmarks.machine import describe
from elmo_client import Client
from elmo_serve.load_test.run import LoadTest
from elmo_serve.load_test.workload import Workload
from tests.support.processes import children, processor_seconds
from tests.support.replicas import loaded, proxied
from tests.support.servers import Running, running

_TOKENS = 1_000
"""Tokens of a request with a model."""

_REQUESTS = 40
_CLIENTS = 4
_MEDIA = "application/vnd.safetensors"
_KILLS = 3


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path, help="one tokenised sentence a line")
    parser.add_argument("--model", default="english")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6, help="of each measurement")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parser.parse_args()
    for program in ("haproxy", "wrk"):
        if shutil.which(program) is None:
            print(f"{program} is not installed (Debian's package {program})", file=sys.stderr)
            return 2
    print(describe())
    for name in arguments.only:
        with tempfile.TemporaryDirectory() as folder:
            PARTS[name](Path(folder), arguments)
    return 0


def with_model(folder: Path, arguments: argparse.Namespace) -> None:
    """Print tokens/s of the server alone and behind the proxy, in turns."""
    tokens: dict[str, list[float]] = {"direct": [], "proxied": []}
    with running(folder, model=arguments.model) as server, _behind(folder, server.url) as proxy:
        for url in (server.url, proxy):
            tokens_per_second(url, arguments.text, arguments.seconds)  # words become known
        print("\n| round | direct, tokens/s | through HAProxy | ratio |\n|---|--:|--:|--:|")
        for number in range(arguments.rounds):
            order = [("direct", server.url), ("proxied", proxy)]
            for name, url in order if number % 2 else reversed(order):
                tokens[name].append(tokens_per_second(url, arguments.text, arguments.seconds))
            direct, proxied_ = tokens["direct"][-1], tokens["proxied"][-1]
            print(f"| {number + 1} | {direct:,.0f} | {proxied_:,.0f} | {proxied_ / direct:.1%} |")
        ratios = [one / other for one, other in zip(*reversed(tokens.values()), strict=True)]
        print(f"| median | | | {statistics.median(ratios):.1%} |")
        _print_processor_time(server, proxy, arguments.text, arguments.seconds)


def _print_processor_time(server: Running, proxy: str, text: Path, seconds: float) -> None:
    """Print the processor time of the proxy beside that of the server, for the same requests."""
    pids = {
        "HAProxy": _own_children("haproxy"),
        "the server": [server.pid, *itertools.chain(*children(server.pid).values())],
    }
    before = {name: sum(map(processor_seconds, found)) for name, found in pids.items()}
    start = time.perf_counter()
    rate = tokens_per_second(proxy, text, seconds)
    requests = rate * (time.perf_counter() - start) / _TOKENS
    print("\n| processor time | ms a request of 1,000 tokens |\n|---|--:|")
    for name, found in pids.items():
        used = sum(map(processor_seconds, found)) - before[name]
        print(f"| {name} | {1e3 * used / requests:.1f} |")


def _own_children(name: str) -> list[int]:
    """Return the children of this process that run a program of that name."""
    pids = [
        int(pid)
        for task in Path("/proc/self/task").glob("*/children")
        for pid in task.read_text().split()
    ]
    return [pid for pid in pids if Path(f"/proc/{pid}/comm").read_text().strip() == name]


def without_model(folder: Path, arguments: argparse.Namespace) -> None:
    """Print requests/s of a server without a model alone and behind the proxy, in turns."""
    print("\n| clients | direct, requests/s | p50, p99 ms | through HAProxy | p50, p99 ms |")
    print("|--:|--:|--:|--:|--:|")
    seconds = max(1, round(arguments.seconds))
    with echo.served() as url, _behind(folder, url) as proxy:
        for clients in (1, 32):
            rows = []
            for address in (url, proxy):
                echo.measure(address, clients, 1, _MEDIA)
                found = [echo.measure(address, clients, seconds, _MEDIA) for _ in range(2)]
                rate, p50, p99, errors = max(found)
                assert errors == 0, f"{errors} errors"
                rows.append(f"{rate:,.0f} | {p50:.2f}, {p99:.2f}")
            print(f"| {clients} | {' | '.join(rows)} |")


def failover(folder: Path, arguments: argparse.Namespace) -> None:
    """Print the longest time of a request while one of two replicas is killed, or restarted."""
    print("\n| one of two replicas | longest request, s | requests | failed |\n|---|--:|--:|--:|")
    with loaded(folder, 2) as (replicas, load):
        for event in ["nothing", *["SIGKILL"] * _KILLS, *["SIGTERM"] * _KILLS]:
            load.slowest, before = 0.0, load.answered
            victim = replicas[load.answered % 2]
            if event == "SIGKILL":
                victim.kill()
            elif event == "SIGTERM":
                victim.stop()
            load.until_answered(1_000)
            requests = load.answered - before
            print(f"| {event} | {load.slowest:.3f} | {requests:,} | {load.failed} |")
            if event != "nothing":
                victim.stop()
                victim.start()
    print(f"\n{load.answered:,} requests, {load.failed} failed or with wrong vectors")


PARTS = {"model": with_model, "echo": without_model, "failover": failover}


@contextmanager
def _behind(folder: Path, url: str) -> Iterator[str]:
    """Run the proxy before one server."""
    port = urlsplit(url).port
    assert port is not None
    with proxied(folder, [port]) as address:
        yield address


def tokens_per_second(url: str, text: Path, seconds: float) -> float:
    """Return the tokens/s of some clients that send requests without a pause."""
    with Client(url) as client:
        requests = Workload(_MEDIA, tokens=_TOKENS, text=text).requests(client, _REQUESTS, None)
    (phase,) = LoadTest(clients=(_CLIENTS,), duration=seconds, warm_up=0).run(url, requests)
    if phase.is_interrupted:
        raise KeyboardInterrupt
    assert not phase.is_bad, phase.faults
    return phase.tokens_per_second


if __name__ == "__main__":
    sys.exit(main())
