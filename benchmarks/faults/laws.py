"""The laws of a run: what must be true when the faults are over."""

import asyncio
import json
import time
from collections import Counter

from benchmarks.faults.clients import Outcomes
from benchmarks.faults.injections import Environment
from benchmarks.faults.replicas import Replica
from tests.support.processes import children, own_memory, shared_memory

_QUIET_SECONDS = 120.0  # in which everything must be as before: a hung worker is found in some
_MORE = {
    "front": 64.0,  # MB: freed memory stays with the allocator
    "shared": 320.0,  # MB, of which 256 are kept for reuse
    "largest worker": 48.0,
    "largest helper": 48.0,
    "descriptors": 16.0,  # channels of helpers that started meanwhile
}
"""How much more than the largest replica before the faults one may hold after them."""

_GAUGES = (
    "elmo_queue_sentences",
    "elmo_queue_tokens",
    "elmo_answer_bytes",
    "elmo_receiving_bytes",
)


Size = dict[str, float]
"""What the processes of a replica hold: MB of memory, and the number of descriptors."""


def measure(replica: Replica) -> Size:
    """Return what the processes of a replica hold now."""
    server = replica.server
    assert server is not None
    there = children(server.pid)
    return {
        "front": own_memory(server.pid),
        "shared": shared_memory(server.pid),
        "largest worker": max(map(own_memory, there["worker"]), default=0.0),
        "largest helper": max(map(own_memory, there["helper"]), default=0.0),
        "descriptors": len(server.descriptors()),
    }


async def until_quiet(on: Environment, missing_only: bool = False) -> list[str]:
    """Wait until all processes are there and, without requests, all gauges are at zero.

    With `missing_only` clients still send requests, which use all processes.
    """
    until = time.monotonic() + _QUIET_SECONDS
    while True:
        laws = []
        for replica in on.replicas:
            missing = await asyncio.to_thread(replica.missing)
            if not missing and not missing_only:
                missing = await asyncio.to_thread(_unfinished, replica)
            if missing:
                laws.append(f"replica {replica.index} is not as before: {missing}")
        if not laws or time.monotonic() > until:
            return laws
        await asyncio.sleep(0.5)


async def settled(on: Environment, before: list[Size]) -> list[Size]:
    """Measure until nothing has grown, or for the time of a quiet period.

    Connections that clients have left are closed one after another, on a busy machine later.
    """
    until = time.monotonic() + _QUIET_SECONDS
    while True:
        after = [await asyncio.to_thread(measure, replica) for replica in on.replicas]
        if not _growth(before, after) or time.monotonic() > until:
            return after
        await asyncio.sleep(0.5)


def _unfinished(replica: Replica) -> str:
    """Say which gauges of a replica are not zero."""
    assert replica.server is not None
    with replica.server.client(verify=False) as http:
        lines = http.get("/metrics").text.splitlines()
    gauges = [line for line in lines if line.split("{")[0].split(" ")[0] in _GAUGES]
    return ", ".join(line for line in gauges if float(line.rpartition(" ")[2]))


def broken(on: Environment, found: Outcomes, before: list[Size], after: list[Size]) -> list[str]:
    """Return the laws that were broken, in words."""
    laws = [*on.findings, *found.faults[:10]]
    if found.wrong:
        laws.append(f"{found.wrong} answers were wrong")
    if not found.outcomes["short", "200"]:
        laws.append("nothing was answered")
    laws += _growth(before, after)
    for replica in on.replicas:
        for log in replica.logs():
            laws += [f"replica {replica.index}: {fault}" for fault in log_faults(log)]
    return laws


def _growth(before: list[Size], after: list[Size]) -> list[str]:
    """Compare with the largest of all replicas before: one that was restarted has no past."""
    most = {name: max(size[name] for size in before) for name in _MORE}
    return [
        f"replica {index} grew: {name} {size[name]:.0f}, {most[name]:.0f} before"
        for index, size in enumerate(after)
        for name, more in _MORE.items()
        if size[name] > most[name] + more
    ]


def log_faults(log: str) -> list[str]:
    """Return what a log in JSON lines shows of faults: tracebacks, and requests answered twice."""
    faults = []
    answered: Counter[str] = Counter()
    for line in log.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            if line.startswith("Traceback"):
                faults.append(f"{line} (of {log.count(line)})")
            continue
        if "exception" in record or "Traceback" in record.get("message", ""):
            faults.append(line[:600])
        if record.get("message") == "request" and record.get("request_id"):
            answered[record["request_id"]] += 1
    faults += [f"request {name} was answered {n} times" for name, n in answered.items() if n > 1]
    return list(dict.fromkeys(faults))
