"""The laws of a run: what must be true when the faults are over."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from dataclasses import dataclass

from benchmarks.faults.clients import Outcomes
from benchmarks.faults.injections import Environment
from benchmarks.faults.replicas import Replica
from tests.support.processes import children, own_memory, shared_memory

_QUIET_SECONDS = 120.0  # in which everything must be as before: a hung worker is found in some
_GROWTH_MB = 64.0  # of a front; freed memory stays with the allocator
_CHILD_MB = 48.0  # of a child over the largest one before
_SHARED_MB = 320.0  # of which 256 MB are kept for reuse
_MORE_DESCRIPTORS = 16  # channels of helpers that started meanwhile
_GAUGES = (
    "elmo_queue_sentences",
    "elmo_queue_tokens",
    "elmo_answer_bytes",
    "elmo_receiving_bytes",
)


@dataclass(frozen=True, slots=True)
class Size:
    """What the processes of a replica hold, memory in MB."""

    front: float
    shared: float
    largest_worker: float
    largest_helper: float
    targets: Counter[str]
    """What its descriptors are of."""

    @property
    def descriptors(self) -> int:
        """The number of them."""
        return self.targets.total()

    def __str__(self) -> str:
        return (
            f"front {self.front:.0f} MB, shared {self.shared:.0f}, worker "
            f"{self.largest_worker:.0f}, helper {self.largest_helper:.0f}; "
            f"{self.descriptors} descriptors"
        )


def measure(replica: Replica) -> Size:
    """Return what the processes of a replica hold now."""
    server = replica.server
    assert server is not None
    there = children(server.pid)
    return Size(
        own_memory(server.pid),
        shared_memory(server.pid),
        max(map(own_memory, there["worker"]), default=0.0),
        max(map(own_memory, there["json"]), default=0.0),
        Counter(re.sub(r"\d+", "N", target) for target in server.descriptors()),
    )


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
    laws = []
    for name, more in (
        ("front", _GROWTH_MB),
        ("shared", _SHARED_MB),
        ("largest_worker", _CHILD_MB),
        ("largest_helper", _CHILD_MB),
        ("descriptors", _MORE_DESCRIPTORS),
    ):
        most = max(getattr(size, name) for size in before)
        for index, size in enumerate(after):
            if getattr(size, name) > most + more:
                more_of = f" ({size.targets})" if name == "descriptors" else ""
                laws.append(
                    f"replica {index} grew: {name} {getattr(size, name):.0f}, {most:.0f}{more_of}"
                )
    return laws


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
