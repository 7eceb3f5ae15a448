"""The service without a model: the cost of a request apart from the network.

    python -m benchmarks.echo [--clients 1 32] [--seconds 5]
    python -m benchmarks.echo --traces [--share 0.01] [--pairs 12]

An echo worker in a process of its own answers every sentence with zeros. The clients are those of
wrk, which must be installed: one connection each, one sentence of 10 tokens in each request.

`--traces` compares two servers, one of which traces a share of the requests, in pairs of runs whose
order alternates: the ratio of a pair says more than two rates, where other work is on the machine.
The processor time of the server for a request is steadier still.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from benchmarks.machine import describe
from elmo_serve import logs
from elmo_serve.http.server import run
from elmo_serve.http.wiring import assemble
from elmo_serve.processes.arena import Arena
from elmo_serve.processes.channel import Parent
from elmo_serve.processes.child import ChildProcess
from elmo_serve.settings.text import from_strings
from elmo_serve.workers.messages import Batch, Done, ModelInfo, Ready, RunnerSettings
from tests.support.servers import free_port

_INFO = ModelInfo("echo", "0", "echo", layers=3, dimension=256, parameters=0, precision="none")
_SCRIPT = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Accept"] = "{accept}"
local count, thread = 0, 0
function setup(t) t:set("id", thread) thread = thread + 1 end
function request()
  count = count + 1
  local word = id .. "x" .. count
  return wrk.format(nil, "/embed", nil,
    '{{"sentences":[["' .. word ..
    '","quick","brown","fox","jumps","over","a","lazy","dog","."]],"layers":"top"}}')
end
function done(summary, latency, requests)
  io.write(string.format("p50 %d p99 %d errors %d\\n", latency:percentile(50),
    latency:percentile(99), summary.errors.status + summary.errors.timeout + summary.errors.read))
end
"""


def echo_worker(settings: RunnerSettings, arena: Arena) -> ChildProcess:
    """Return a worker process that computes nothing."""
    return ChildProcess("echo", echo, (), arena)


def echo(parent: Parent) -> None:
    """Answer zeros until the front hangs up."""
    parent.send(Ready(_INFO))
    while True:
        if not isinstance(batch := parent.receive(), Batch):
            continue
        memory = parent.memory(batch.block)
        for offset, output in zip(batch.offsets, batch.outputs, strict=True):
            memory[offset : offset + output.size(10, _INFO.dimension)] = 0
        parent.send(Done(batch.id, 0, 0))


def serve(port: int) -> int:
    """Serve with echo workers, as `elmo serve` does with real ones."""
    settings = from_strings({"port": str(port), "log_level": "warning", "devices": "cpu"})
    logs.configure(settings.log_level, settings.log_format)
    return run(assemble(settings, echo_worker, environment=os.environ))


@contextlib.contextmanager
def served(**environment: str) -> Iterator[str]:
    """Yield the address of a service that runs while the body of the `with` statement does."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "benchmarks.echo", "--serve", str(port)]
    server = subprocess.Popen(command, env={**os.environ, **environment})
    try:
        for _ in range(200):
            time.sleep(0.05)
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{url}/health/ready")
                break
        yield url
    finally:
        server.terminate()
        server.wait(20)


def measure(url: str, clients: int, seconds: int, accept: str) -> tuple[float, float, float, int]:
    """Return requests/s, p50 and p99 in milliseconds, and errors."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "request.lua")
        script.write_text(_SCRIPT.format(accept=accept))
        command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "-s", str(script)]
        done = subprocess.run([*command, url], capture_output=True, text=True, check=True)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    line = re.search(r"p50 (\d+) p99 (\d+) errors (\d+)", done.stdout)
    assert rate and line, done.stdout
    p50, p99, errors = map(int, line.groups())
    return float(rate[1]), p50 / 1e3, p99 / 1e3, errors


def compare_traces(clients: int, seconds: int, share: float, pairs: int) -> None:
    """Print the requests/s of each pair of runs, without and with traces, and their ratios."""
    from tests.support.collector import collector  # noqa: PLC0415 - needs the extra `traces`

    accept = "application/vnd.safetensors"
    with collector() as to:
        sampler = {
            "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": str(share),
        }
        with served() as off, served(OTEL_EXPORTER_OTLP_ENDPOINT=to.url, **sampler) as on:
            print("| requests/s off | on | ratio | processor us a request off | on | ratio |")
            print("|--:|--:|--:|--:|--:|--:|")
            ratios = []
            for pair in range(-1, pairs):  # the first one warms up
                urls = (off, on) if pair % 2 else (on, off)
                found = {url: _costs(url, clients, seconds, accept) for url in urls}
                if pair >= 0:
                    both = list(zip(found[off], found[on], strict=True))
                    ratios.append([traced / usual for usual, traced in both])
                    cells = zip(both, ratios[-1], strict=True)
                    texts = (f"{a:,.0f} | {b:,.0f} | {ratio:.3f}" for (a, b), ratio in cells)
                    print(f"| {' | '.join(texts)} |")
        for name, values in zip(
            ("requests/s", "processor"), zip(*ratios, strict=True), strict=True
        ):
            low, middle, high = statistics.quantiles(values, n=4)
            print(f"\n{name}: median {middle:.3f}, quartiles {low:.3f} to {high:.3f}")
        print(f"\nspans received: {len(to.spans(0)):,} of a share of {share:g}")


def _costs(url: str, clients: int, seconds: int, accept: str) -> tuple[float, float]:
    """Return requests/s, and the processor time of the server for a request in microseconds."""
    before = _processor_seconds(url)
    rate = measure(url, clients, seconds, accept)[0]
    return rate, (_processor_seconds(url) - before) / (rate * seconds) * 1e6


def _processor_seconds(url: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics") as response:
        text = response.read().decode()
    (found,) = re.findall(r"^elmo_process_cpu_seconds_total (\S+)", text, re.MULTILINE)
    return float(found)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--traces", action="store_true", help="compare with traces")
    parser.add_argument("--share", type=float, default=0.01, help="of the requests, traced")
    parser.add_argument("--pairs", type=int, default=12, help="of runs, with --traces")
    parser.add_argument("--serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve(arguments.serve)
    if shutil.which("wrk") is None:
        print("wrk is not installed (Debian's package wrk)", file=sys.stderr)
        return 2
    print(describe())
    if arguments.traces:
        compare_traces(arguments.clients[-1], arguments.seconds, arguments.share, arguments.pairs)
        return 0
    print("| answer | clients | requests/s | p50 ms | p99 ms | errors |")
    print("|---|--:|--:|--:|--:|--:|")
    with served() as url:
        for accept in ("application/vnd.safetensors", "application/json"):
            for clients in arguments.clients:
                measure(url, clients, 1, accept)
                rate, p50, p99, errors = measure(url, clients, arguments.seconds, accept)
                print(f"| {accept} | {clients} | {rate:,.0f} | {p50:.2f} | {p99:.2f} | {errors} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
