"""Faults caused for real in a running server: what each of them costs.

    python -m benchmarks.faults [--clients 20]

Every row has a server of its own, a tiny model whose words with a ~ are not numbers, and clients
that check each answer against the network itself. "Innocent" are those that were told anything but
vectors or, for the time being, 503 with Retry-After.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from benchmarks.answers import Answers, sentences
from benchmarks.load import Outcome, storm
from benchmarks.machine import describe
from benchmarks.processes import children, is_alive
from tests.checkpoints import poisoned_by, write_pair
from tests.servers import Running, running

_BEFORE_SECONDS = 2.0  # of load, before the fault: the server has to know its own pace
_BULK = 4_000


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; None where it does not apply."""

    fault: str
    hung: int
    wrong: int
    innocent: int
    seconds: float | None
    remark: str


Scenario = Callable[[Running, Answers, int], Coroutine[Any, Any, Row]]


async def poison(server: Running, answers: Answers, clients: int) -> Row:
    """One request in ten holds a word that the model has no number for."""
    bad = 0

    async def ask_badly(http: httpx.AsyncClient) -> None:
        nonlocal bad
        for number in range(5 * clients):
            body = {"sentences": [[f"a{number}", "~"]]}
            bad += (await http.post("/embed", json=body)).status_code == 500

    async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
        load = asyncio.create_task(storm(server.url, answers, clients=clients, seconds=5))
        await ask_badly(http)
        outcome = await load
    remark = f"{bad} of {5 * clients} poisoned ones were told 500, {outcome.answered} others 200"
    return _row("a word that makes the model fail", outcome, None, remark)


async def kill_worker(server: Running, answers: Answers, clients: int) -> Row:
    """SIGKILL to the only worker, or to one of two."""
    workers = len(children(server.pid)["worker"])
    name = "kill -9 of the worker" if workers == 1 else f"kill -9 of one of {workers} workers"
    return await _strike(server, answers, clients, name, signal.SIGKILL, "worker", 6)


async def stop_worker(server: Running, answers: Answers, clients: int) -> Row:
    """SIGSTOP to the only worker."""
    return await _strike(
        server, answers, clients, "worker hangs (SIGSTOP)", signal.SIGSTOP, "worker", 15
    )


async def kill_json(server: Running, answers: Answers, clients: int) -> Row:
    """SIGKILL to a process that writes JSON."""
    return await _strike(
        server, answers, clients, "kill -9 of a JSON process", signal.SIGKILL, "json", 6
    )


async def overload(server: Running, answers: Answers, clients: int) -> Row:
    """Ten times as many clients as the queue has room for."""
    few, many = max(1, clients // 4), 10 * clients // 4
    start = time.perf_counter()
    at_peak = await storm(server.url, answers, clients=few, seconds=8)
    peak = at_peak.tokens / (time.perf_counter() - start)
    start = time.perf_counter()
    outcome = await storm(server.url, answers, clients=many, seconds=12, seed=1)
    goodput = outcome.tokens / (time.perf_counter() - start)
    remark = (
        f"{goodput / peak:.0%} of the {peak:,.0f} tokens/s of {few} clients; "
        f"{outcome.refused} refusals"
    )
    return _row(f"overload: {many} clients", outcome, None, remark)


async def leave(server: Running, answers: Answers, clients: int) -> Row:
    """Bulk requests whose clients hang up soon."""
    abandoned = 0
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
        for turn in range(5):
            body = {"sentences": [[f"{turn}-{i}", "b", "c"] * 4 for i in range(_BULK)]}
            work = asyncio.create_task(http.post("/embed", json=body))
            await _until(lambda: server.metric("elmo_queue_sentences") > _BULK / 2)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            abandoned += _BULK
    await _until(lambda: server.metric("elmo_queue_sentences") == 0)
    await asyncio.sleep(0.5)
    computed = server.metric("elmo_batch_sentences_sum")
    outcome = await storm(server.url, answers, clients=clients, seconds=2)
    remark = f"{computed / abandoned:.1%} of {abandoned:,} abandoned sentences were computed"
    return _row("clients leave bulk requests", outcome, None, remark)


async def terminate(server: Running, answers: Answers, clients: int) -> Row:
    """SIGTERM with a full queue."""
    found, seconds = await _ended_while_asked(server, answers, 1)
    answered, refused = found.count(200), found.count(503)
    remark = f"{answered} answered, {refused} came too late (503), exit {server.process.poll()}"
    innocent = len(found) - answered - refused
    return Row("SIGTERM under load", found.count(0), 0, innocent, seconds, remark)


async def terminate_twice(server: Running, answers: Answers, clients: int) -> Row:
    """A second SIGTERM, for those who cannot wait."""
    _, seconds = await _ended_while_asked(server, answers, 2)
    return Row("SIGTERM twice", 0, 0, 0, seconds, f"exit {server.process.poll()}")


async def kill_front(server: Running, answers: Answers, clients: int) -> Row:
    """SIGKILL to the front: its children must not stay."""
    pids = [pid for each in children(server.pid).values() for pid in each]
    server.process.kill()
    start = time.perf_counter()
    await asyncio.to_thread(server.process.wait)
    await _until(lambda: not any(map(is_alive, pids)))
    seconds = time.perf_counter() - start
    return Row("kill -9 of the front", 0, 0, 0, seconds, f"{len(pids)} processes ended with it")


_SCENARIOS: list[tuple[Scenario, dict[str, Any]]] = [
    (poison, {}),
    (kill_worker, {}),
    (kill_worker, {"workers_per_device": 2}),
    (stop_worker, {}),
    (kill_json, {}),
    (overload, {"max_queue_tokens": 8_000}),
    (leave, {}),
    (terminate, {}),
    (terminate_twice, {}),
    (kill_front, {}),
]


async def _strike(
    server: Running,
    answers: Answers,
    clients: int,
    name: str,
    number: signal.Signals,
    role: str,
    seconds: float,
) -> Row:
    """Send a signal to a child under load, and time how long nobody can be answered."""
    workers = len(children(server.pid)["worker"])
    load = asyncio.create_task(storm(server.url, answers, clients=clients, seconds=seconds))
    await asyncio.sleep(_BEFORE_SECONDS)
    restarts = server.metric("elmo_worker_restarts_total")
    os.kill(children(server.pid)[role][0], number)
    start = time.perf_counter()
    recovered: float | None = None
    if role == "worker":
        await _until(lambda: server.metric("elmo_worker_restarts_total") > restarts)
        await _until(lambda: server.metric("elmo_worker_up") == workers)
        recovered = time.perf_counter() - start
    outcome = await load
    lost = server.metric("elmo_failures_total", reason="worker_lost")
    remark = f"{outcome.answered} answered, {outcome.refused} refused for now, {lost:.0f} of them"
    return _row(name, outcome, recovered, f"{remark} sentences that ran")


async def _ended_while_asked(
    server: Running, answers: Answers, signals: int
) -> tuple[list[int], float]:
    """Fill the queue, end the server; return all statuses (0: none) and the seconds it took."""
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:

        async def ask(number: int) -> int:
            some = answers.sentences[:60]
            body = {"sentences": some, "mix": {"weights": [number, 0.0, 0.0]}}
            try:
                response = await http.post("/embed", json=body)
            except httpx.HTTPError:
                return 0
            return response.status_code

        tasks = [asyncio.create_task(ask(number)) for number in range(10)]
        await _until(lambda: server.metric("elmo_queue_sentences") > 200)
        start = time.perf_counter()
        for _ in range(signals):
            server.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.1)
        await asyncio.to_thread(server.process.wait, 60)
        seconds = time.perf_counter() - start
        return list(await asyncio.gather(*tasks)), seconds


async def _until(condition: Callable[[], bool], seconds: float = 60) -> None:
    start = time.monotonic()
    while not await asyncio.to_thread(condition):
        if time.monotonic() - start > seconds:
            raise TimeoutError("the server did not recover")
        await asyncio.sleep(0.02)


def _row(fault: str, outcome: Outcome, seconds: float | None, remark: str) -> Row:
    return Row(fault, outcome.lost, outcome.wrong, outcome.failed, seconds, remark)


def main() -> int:
    """Cause every fault, print the table, and fail when anybody was harmed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=20)
    clients = parser.parse_args().clients
    print(f"{clients} clients; {describe()}\n")
    print("| fault | hung | wrong answers | innocent failures | seconds | |")
    print("|---|--:|--:|--:|--:|---|")
    harmed = False
    with tempfile.TemporaryDirectory() as folder:
        model = poisoned_by(write_pair(Path(folder, "tiny")), "~")
        answers = Answers(str(model), sentences(None, 300, random.Random(2)))
        for number, (scenario, settings) in enumerate(_SCENARIOS):
            place = Path(folder, str(number))
            start = partial(running, place, model=model, tasks=place / "tasks", **settings)
            with start() as server:
                wanted = settings.get("workers_per_device", 1)
                while server.metric("elmo_worker_up") != wanted:
                    time.sleep(0.05)
                row = asyncio.run(scenario(server, answers, clients))
            seconds = "" if row.seconds is None else f"{row.seconds:.1f}"
            print(
                f"| {row.fault} | {row.hung} | {row.wrong} | {row.innocent} | {seconds} "
                f"| {row.remark} |",
                flush=True,
            )
            harmed |= bool(row.hung or row.wrong or row.innocent)
    return 1 if harmed else 0


if __name__ == "__main__":
    sys.exit(main())
