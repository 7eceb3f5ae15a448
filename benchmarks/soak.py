"""Soak test: mixed traffic and random faults for half an hour; no answer wrong, none missing.

    python -m benchmarks.soak [CHECKPOINT] [--minutes 30] [--share 0.2] [--between 30] [--seed 1]

Clients send one sentence, a page or thousands, the same sentence, requests with short timeouts, and
requests that they abandon. Meanwhile workers and JSON processes are killed (SIGKILL) or stopped
(SIGSTOP). Every vector is compared with the network itself. The load is paced: server and clients
together take `--share` of a core on average. The exit status is 1 when a law is broken at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
import torch

from benchmarks.load import TASK_NAME, random_options
from benchmarks.machine import describe
from elmo_serve.http.media_types import ENCODERS
from tests.support.answers import TASK, Answers, Asked, sentences
from tests.support.processes import (
    children,
    is_alive,
    open_sockets,
    own_memory,
    processor_seconds,
    shared_memory,
)
from tests.support.servers import SMALL, Running, running

LATE_SECONDS = 10.0
"""Seconds after its deadline at which a request without an answer counts as hung."""

_DEADLINE_SECONDS, _BULK_SECONDS = 45.0, 120.0
_AT_ONCE = 0.1  # share of the deadline: a 504 this early means that it could not be kept
_SHORT_TOKENS, _BULK_TOKENS = 8, 25  # of the longest sentence in a short and in a bulk request
_LEAST_BULK = 1_000  # sentences
_WARM = 0.25  # share of the time at the start that does not count as growth
_STARTED_SECONDS = 5.0  # a JSON process that was seen so long ago has started
_CALM_SECONDS = 20.0  # without faults at the end, so that stopped processes are noticed
_GROWTH_MB = 16.0  # allowed growth of the front process over the whole run
_SHARED_GROWTH_MB = 320.0  # likewise of shared memory, of which 256 MB are kept for reuse
_EXCESS_MB = 32.0  # allowed for a child over 1.5 times the median of its role
_MORE_SOCKETS = 16
_LOOK_SECONDS = 0.5  # between two readings of the processor time, which take some
_KINDS = {"short": 45, "same": 15, "page": 24, "bulk": 2, "hurry": 8, "leave": 6}
_STRIKES = {
    ("worker", signal.SIGKILL): 3,
    ("worker", signal.SIGSTOP): 2,
    ("json", signal.SIGKILL): 3,
    ("json", signal.SIGSTOP): 2,
}
_EVERY_WORKER = 0.2  # share of the SIGKILLs to workers that hit all of them


@dataclass(frozen=True, slots=True)
class Plan:
    """Duration, load and rate of faults."""

    seconds: float
    share: float = 0.2  # of a core
    between: float = 30.0  # seconds between faults, on average
    clients: int = 8
    seed: int = 1


@dataclass(slots=True)
class Sizes:
    """Samples over time, in MB or in sockets."""

    at: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, at: float, value: float) -> None:
        """Take a sample."""
        self.at.append(at)
        self.values.append(value)

    def slope(self) -> float:
        """Return the growth an hour, by least squares."""
        if len(self.at) < 3:
            return 0.0
        return statistics.linear_regression(self.at, self.values).slope * 3600

    def quarters(self) -> tuple[float, float]:
        """Return the medians of the first and of the last quarter."""
        quarter = max(1, len(self.values) // 4)
        return statistics.median(self.values[:quarter]), statistics.median(self.values[-quarter:])


@dataclass(slots=True)
class Report:
    """Counts and samples of a run."""

    asked: Counter[str] = field(default_factory=Counter)
    told: Counter[tuple[str, str]] = field(default_factory=Counter)  # by kind and outcome
    sentences: int = 0
    wrong: int = 0
    worst: float = 0.0  # largest difference, in multiples of the tolerance
    hung: int = 0
    lost: int = 0  # connections that broke
    failed: int = 0  # responses with a status that they should not have
    strikes: Counter[str] = field(default_factory=Counter)
    never_replaced: int = 0
    replaced: dict[str, float] = field(default_factory=dict)
    front: Sizes = field(default_factory=Sizes)
    shared: Sizes = field(default_factory=Sizes)
    sockets: Sizes = field(default_factory=Sizes)
    children: dict[str, dict[int, Sizes]] = field(default_factory=dict)
    seconds: float = 0.0
    processor_seconds: float = 0.0
    faults: list[str] = field(default_factory=list)


def broken(report: Report) -> list[str]:
    """Return the laws that were broken, in words."""
    laws = []
    if not report.told["short", "200"]:
        laws.append("nothing was answered")
    for count, law in (
        (report.wrong, "answers were wrong"),
        (report.hung, f"requests had no answer {LATE_SECONDS:g} s after their deadline"),
        (report.lost, "connections broke"),
        (report.failed, "responses had a status that they should not have"),
        (report.never_replaced, "killed or stopped processes were not replaced"),
    ):
        if count:
            laws.append(f"{count} {law}")
    warm, end = report.front.quarters() if report.front.values else (0.0, 0.0)
    if end - warm > _GROWTH_MB:
        laws.append(f"the front grew from {warm:.0f} to {end:.0f} MB")
    warm, end = report.shared.quarters() if report.shared.values else (0.0, 0.0)
    if end - warm > _SHARED_GROWTH_MB:
        laws.append(f"shared memory grew from {warm:.0f} to {end:.0f} MB")
    warm, end = report.sockets.quarters() if report.sockets.values else (0.0, 0.0)
    if end - warm > _MORE_SOCKETS:
        laws.append(f"the front had {warm:.0f} sockets and has {end:.0f}")
    for role, sizes in report.children.items():
        most = [max(size.values) for size in sizes.values()]
        if max(most) > 1.5 * statistics.median(most) + _EXCESS_MB:
            laws.append(f"a {role} process held {max(most):.0f} MB")
    return laws


async def soak(server: Running, answers: Answers, plan: Plan) -> Report:
    """Run clients and faults against a server with any number of workers."""
    report = Report()
    start = time.monotonic()
    until = start + plan.seconds
    whole = {role: len(pids) for role, pids in children(server.pid).items()}
    budget = ProcessorBudget(server.pid, plan.share)
    strikes = Strikes(server, whole, random.Random(plan.seed), report)
    limits = httpx.Limits(max_keepalive_connections=plan.clients, keepalive_expiry=2)
    async with httpx.AsyncClient(base_url=server.url, timeout=None, limits=limits) as http:
        (await http.put(f"/tasks/{TASK_NAME}", json=TASK)).raise_for_status()
        beside = [
            asyncio.create_task(strikes.go_on(until - _CALM_SECONDS, plan.between)),
            asyncio.create_task(_watch(server.pid, report, start + _WARM * plan.seconds)),
        ]
        clients = [
            Client(http, answers, report, random.Random(plan.seed * 10_007 + number))
            for number in range(plan.clients)
        ]
        await asyncio.gather(*(client.run(until, budget) for client in clients))
        await asyncio.gather(*(client.run_calmly(strikes) for client in clients))
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
    report.never_replaced = len(strikes.stopped()) + strikes.missing()
    for name, labels in (
        ("elmo_worker_restarts_total", {}),
        ("elmo_failures_total", {"reason": "worker_lost"}),
        ("elmo_failures_total", {"reason": "worker_hung"}),
        ("elmo_failures_total", {"reason": "json_lost"}),
        ("elmo_failures_total", {"reason": "json_hung"}),
        ("elmo_failures_total", {"reason": "deadline"}),
    ):
        reason = labels.get("reason", "worker_restarts")
        report.replaced[reason] = await asyncio.to_thread(server.metric, name, **labels)
    report.seconds = time.monotonic() - start
    report.processor_seconds = budget.spent
    return report


class ProcessorBudget:
    """A limit on the processor time of server and clients together: a share of the wall time."""

    def __init__(self, pid: int, share: float) -> None:
        self._pid = pid
        self._share = share
        self._start = time.monotonic()
        self._before = self._taken()
        self._looked, self._known = self._start, 0.0

    @property
    def spent(self) -> float:
        """Seconds of processor time since the start."""
        return self._taken() - self._before

    async def wait(self, source: random.Random) -> None:
        """Wait until the processor time is below its limit."""
        while True:
            await asyncio.sleep(source.uniform(0, 0.5))
            if time.monotonic() - self._looked > _LOOK_SECONDS:
                self._looked, self._known = time.monotonic(), self.spent
            if self._known <= self._share * (time.monotonic() - self._start):
                return

    def _taken(self) -> float:
        pids = [pid for each in children(self._pid).values() for pid in each]
        return sum(map(processor_seconds, (os.getpid(), self._pid, *pids)))


class Strikes:
    """Sends signals to child processes at random times, and remembers those that it stopped."""

    def __init__(
        self, server: Running, whole: dict[str, int], source: random.Random, report: Report
    ) -> None:
        self._server = server
        self._whole = whole  # number of processes by role
        self._source = source
        self._report = report
        self._stopped: list[int] = []
        self._known: dict[int, float] = {}  # when a JSON process was first seen

    async def go_on(self, until: float, between: float) -> None:
        """Send signals until that monotonic time, `between` seconds apart on average."""
        while True:
            await asyncio.sleep(self._source.uniform(0.2, 1.8) * between)
            if time.monotonic() > until:
                return
            await self._strike()

    def stopped(self) -> list[int]:
        """Return the processes that were stopped and are still there."""
        return [pid for pid in self._stopped if is_alive(pid)]

    def missing(self) -> int:
        """Return the number of processes that are missing."""
        there = children(self._server.pid)
        return sum(max(0, self._whole[role] - len(there[role])) for role in ("worker", "json"))

    async def _strike(self) -> None:
        role, number = self._source.choices(list(_STRIKES), list(_STRIKES.values()))[0]
        living = children(self._server.pid)
        now = time.monotonic()
        self._known = {pid: self._known.get(pid, now) for pid in living["json"]}
        there = [pid for pid in living[role] if pid not in self.stopped()]
        if number == signal.SIGSTOP:
            there = await self._started(role, there)
        every = (role, number) == ("worker", signal.SIGKILL)
        count = len(there) if every and self._source.random() < _EVERY_WORKER else 1
        for pid in self._source.sample(there, min(count, len(there))):
            try:
                os.kill(pid, number)
            except ProcessLookupError:  # it has ended meanwhile
                continue
            self._report.strikes[f"{role} {number.name}"] += 1
            if number == signal.SIGSTOP:
                self._stopped.append(pid)

    async def _started(self, role: str, pids: list[int]) -> list[int]:
        """Return those that have started: a stop during the start is noticed after minutes."""
        if role == "worker":
            up = await asyncio.to_thread(self._server.metric, "elmo_worker_up")
            return pids if up == self._whole["worker"] else []
        latest = time.monotonic() - _STARTED_SECONDS
        return [pid for pid in pids if self._known[pid] < latest]


class Client:
    """Sends one request after another, of any kind, and checks its response."""

    def __init__(
        self, http: httpx.AsyncClient, answers: Answers, report: Report, source: random.Random
    ) -> None:
        self._http = http
        self._answers = answers
        self._report = report
        self._source = source
        lengths = [len(sentence) for sentence in answers.sentences]
        self._short = [i for i, length in enumerate(lengths) if length <= _SHORT_TOKENS]
        self._middling = [i for i, length in enumerate(lengths) if length <= _BULK_TOKENS]

    async def run(self, until: float, budget: ProcessorBudget) -> None:
        """Send requests until that time of the monotonic clock."""
        while time.monotonic() < until:
            await budget.wait(self._source)
            kind = self._source.choices(list(_KINDS), list(_KINDS.values()))[0]
            await self._ask(kind)

    async def run_calmly(self, strikes: Strikes) -> None:
        """Send some requests until every process is replaced: an idle one would not be noticed."""
        until = time.monotonic() + 2 * _CALM_SECONDS
        while (strikes.stopped() or strikes.missing()) and time.monotonic() < until:
            await self._ask("page")
            await asyncio.sleep(0.5)

    async def _ask(self, kind: str) -> None:
        asked = self._make(kind)
        is_bulk = len(asked.sentences) >= _LEAST_BULK
        seconds = _BULK_SECONDS if is_bulk else _DEADLINE_SECONDS
        if kind == "hurry":
            seconds = self._source.uniform(0.01, 0.5)
        self._report.asked[kind] += 1
        work = asyncio.ensure_future(self._send(kind, asked, seconds))
        if kind == "leave":
            await asyncio.wait([work], timeout=self._source.uniform(0, 0.5))
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        else:
            await work

    def _make(self, kind: str) -> Asked:
        source = self._source
        if kind == "same":  # by many clients at once, so that they share a job
            return Asked((self._middling[-1],), {"layers": "top"})
        options = random_options(source, self._answers.layer_count)
        if kind == "short":
            return Asked((source.choice(self._short),), options)
        if kind == "bulk" or (kind == "leave" and source.random() < 0.3):
            count = source.randint(_LEAST_BULK, 3 * _LEAST_BULK)
            return Asked(tuple(source.choices(self._middling, k=count)), options)
        every = range(len(self._answers.sentences))
        return Asked(tuple(source.choices(every, k=source.randint(1, 40))), options)

    async def _send(self, kind: str, asked: Asked, seconds: float) -> None:
        media = self._source.choice(list(ENCODERS))
        body = {"sentences": [self._answers.sentences[index] for index in asked.sentences]}
        content = orjson.dumps(body | asked.options)
        headers = {
            "accept": media,
            "content-type": "application/json",
            "x-request-timeout": f"{seconds:.3f}",
        }
        report = self._report
        start = time.monotonic()
        try:
            async with asyncio.timeout(seconds + LATE_SECONDS):
                response = await self._http.post("/embed", content=content, headers=headers)
        except TimeoutError:
            report.hung += 1
            report.told[kind, "nothing"] += 1
            return
        except httpx.HTTPError as error:
            report.lost += 1
            report.told[kind, type(error).__name__] += 1
            report.faults.append(f"{kind}: {error!r}")
            return
        took = time.monotonic() - start
        report.told[kind, str(response.status_code)] += 1
        if response.status_code == 200:
            await self._check(asked, media, response.content)
        elif response.status_code in (429, 503) and "retry-after" in response.headers:
            await asyncio.sleep(min(float(response.headers["retry-after"]), 5.0))
        elif response.status_code == 504 and (
            kind == "hurry" or (len(asked.sentences) >= _LEAST_BULK and took < _AT_ONCE * seconds)
        ):
            return
        else:
            report.failed += 1
            report.faults.append(f"{kind}: {response.status_code} {response.text[:300]}")

    async def _check(self, asked: Asked, media: str, content: bytes) -> None:
        report = self._report
        worst = await asyncio.to_thread(self._answers.furthest, asked, media, content)
        report.sentences += len(asked.sentences)
        report.worst = max(report.worst, worst)
        if worst > 1:
            report.wrong += 1
            report.faults.append(f"{worst:.1f} times the tolerance: {media} {asked.options}")


async def _watch(pid: int, report: Report, warm: float) -> None:
    """Sample the sizes of all processes every two seconds after `warm`, until cancelled."""
    start = time.monotonic()
    while True:
        await asyncio.sleep(2)
        at = time.monotonic() - start
        if at + start < warm:
            continue
        report.front.add(at, own_memory(pid))
        report.shared.add(at, shared_memory(pid))
        report.sockets.add(at, open_sockets(pid))
        there = children(pid)
        for role in ("worker", "json"):
            for child in there[role]:
                sizes = report.children.setdefault(role, {}).setdefault(child, Sizes())
                sizes.add(at, own_memory(child))


def _rows(report: Report) -> Iterator[tuple[str, object]]:
    yield "requests", sum(report.asked.values())
    yield "sentences compared", f"{report.sentences:,}"
    yield "wrong answers", report.wrong
    yield "largest difference, in tolerances", f"{report.worst:.3f}"
    yield "hung requests", report.hung
    yield "broken connections", report.lost
    yield "responses with a wrong status", report.failed
    for kind, count in report.asked.items():
        told = {what: n for (of, what), n in sorted(report.told.items()) if of == kind}
        parts = [f"{n} x {what}" for what, n in told.items()]
        if left := count - sum(told.values()):
            parts.append(f"{left} abandoned")
        yield f"{kind}: {count}", ", ".join(parts)
    for strike, count in sorted(report.strikes.items()):
        yield f"strikes: {strike}", count
    for reason, value in report.replaced.items():
        yield f"counted by the server: {reason}", f"{value:.0f}"
    yield "killed or stopped, and never replaced", report.never_replaced
    for name, sizes in (("front", report.front), ("answers, shared", report.shared)):
        if sizes.values:
            first, last = sizes.quarters()
            largest, slope = max(sizes.values), sizes.slope()
            yield (
                f"memory of {name}: warm / end / most, MB",
                f"{first:.1f} / {last:.1f} / {largest:.1f} ({slope:+.1f} an hour)",
            )
    for role, each in report.children.items():
        most = [max(sizes.values) for sizes in each.values()]
        oldest = max(each.values(), key=lambda sizes: sizes.at[-1] - sizes.at[0])
        age = oldest.at[-1] - oldest.at[0]
        yield (
            f"memory of {len(each)} {role} processes: median / most, MB",
            f"{statistics.median(most):.1f} / {max(most):.1f} "
            f"({oldest.slope():+.1f} an hour in one that lived {age:.0f} s)",
        )
    if report.sockets.values:
        first, last = report.sockets.quarters()
        yield "sockets of the front: warm / end", f"{first:.0f} / {last:.0f}"
    share = report.processor_seconds / report.seconds
    yield "processor time, of a core", f"{share:.0%} for {report.seconds:.0f} s"


def main() -> int:
    """Soak, print, and fail when a law was broken."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint", nargs="?", default=str(SMALL))
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--share", type=float, default=0.2, help="of a core, all together")
    parser.add_argument("--between", type=float, default=30, help="seconds between faults")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--sentences", type=int, default=600, help="distinct ones")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    made = sentences(None, options.sentences, random.Random(options.seed))
    answers = Answers(options.checkpoint, made)
    plan = Plan(60 * options.minutes, options.share, options.between, options.clients, options.seed)
    settings: dict[str, Any] = {
        "workers_per_device": options.workers,
        "json_workers": 2,
        "request_timeout_seconds": _BULK_SECONDS,
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        running(
            Path(folder), model=options.checkpoint, tasks=Path(folder, "tasks"), **settings
        ) as server,
    ):
        while server.metric("elmo_worker_up") != options.workers:
            time.sleep(0.1)
        report = asyncio.run(soak(server, answers, plan))
    print(f"{Path(options.checkpoint).name}, {options.minutes:g} minutes; {describe()}\n")
    print("| what | found |\n|---|--:|")
    for what, found in _rows(report):
        print(f"| {what} | {found} |")
    for fault in report.faults[:10]:
        print(f"\n{fault}", file=sys.stderr)
    laws = broken(report)
    print("\nEvery law was kept." if not laws else "\nBroken: " + "; ".join(laws) + ".")
    return 1 if laws else 0


if __name__ == "__main__":
    sys.exit(main())
