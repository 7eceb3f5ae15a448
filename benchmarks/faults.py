"""Fault injection: the cost of each fault that is caused in a running server.

    python -m benchmarks.faults [CHECKPOINT] [--clients 20] [--only NAME ...]

Every row has a server of its own, and clients that compare each answer with the network itself. The
model is the published pair of files at CHECKPOINT, or a tiny one, changed so that the vectors of
words with a ~ are not finite. "Innocent failures" are responses to good requests other than vectors
or 503 with Retry-After. `benchmarks.faulty` serves a model that raises and a device without memory.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import math
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import orjson

from benchmarks.fairness import Asker, goodput, overload
from benchmarks.load import Storm, storm
from benchmarks.machine import describe
from tests.support.answers import Answers, sentences
from tests.support.checkpoints import poisoned_by, write_pair
from tests.support.processes import children, is_alive, own_memory
from tests.support.servers import Running, running

_BEFORE_SECONDS = 2.0  # of load before the fault, so that the server has measured its batches
_BULK = 4_000  # sentences of a request that its client abandons


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table; `seconds` is None where it does not apply."""

    fault: str
    hung: int
    wrong: int
    innocent: int
    seconds: float | None
    remark: str


Scenario = Callable[[Running, Answers, int], Coroutine[Any, Any, Row]]


async def poison(server: Running, answers: Answers, clients: int) -> Row:
    """Some requests hold a word whose vectors are not finite."""
    outcome, remark = await _send_bad_word(server, answers, clients, "~")
    return _row("NaN: a word with vectors that are not finite", outcome, None, remark)


async def bisect(server: Running, answers: Answers, clients: int) -> Row:
    """Some requests hold a word that the model raises for; then one sentence of 64 does."""
    outcome, remark = await _send_bad_word(server, answers, clients, RAISES)
    before = server.metric("elmo_batch_sentences_count")
    together = [[f"w{number}", "x"] for number in range(_TOGETHER)]
    together[_TOGETHER // 3][1] = RAISES
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
        status = (await http.post("/embed", json={"sentences": together})).status_code
    extra = server.metric("elmo_batch_sentences_count") - before - 1
    most = 2 * math.ceil(math.log2(_TOGETHER)) + 1
    remark += f"; one of {_TOGETHER} in a batch: {status}, {extra:.0f} extra runs of at most {most}"
    row = _row("poison: a word that the model raises for", outcome, None, remark)
    return replace(row, innocent=row.innocent + (extra > most))


async def memory(server: Running, answers: Answers, clients: int) -> Row:
    """A device with memory for fewer tokens than a batch may hold."""
    outcome = await storm(server.url, answers, clients=clients, seconds=6)
    learned = server.metric("elmo_batch_budget_tokens")
    remark = (
        f"{outcome.answered} answered; room for {_ROOM}, batches of {_BATCH} became {learned:.0f}"
    )
    row = _row("out of memory on the device", outcome, None, remark)
    return replace(row, innocent=row.innocent + outcome.refused.total())


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


async def stop_json(server: Running, answers: Answers, clients: int) -> Row:
    """SIGSTOP to a JSON process."""
    name = "JSON process hangs (SIGSTOP)"
    return await _strike(server, answers, clients, name, signal.SIGSTOP, "json", 12)


async def kill_json(server: Running, answers: Answers, clients: int) -> Row:
    """SIGKILL to a JSON process."""
    return await _strike(
        server, answers, clients, "kill -9 of a JSON process", signal.SIGKILL, "json", 6
    )


async def ten_times(server: Running, answers: Answers, clients: int) -> Row:
    """Ten times the peak load; refused requests are not sent again."""
    asker = Asker(answers, random.Random(5))
    before = own_memory(server.pid)
    found = await overload(server, asker, 4.0, 4.0)
    share, peak = goodput(found)
    phase = found[-2].phase
    wrong = sum(each.right.count(False) for each in found)
    remark = (
        f"{share:.0%} of the peak of {peak:,.0f} tokens/s in time and right, "
        f"{phase.refused.total()} refused, {phase.late} late; "
        f"the front grew by {own_memory(server.pid) - before:.0f} MB"
    )
    failed = phase.failed.total()
    return Row("overload 10x, open loop", phase.lost, wrong, failed, None, remark)


async def bad_clients(server: Running, answers: Answers, clients: int) -> Row:
    """Slow, malformed, huge and compressed requests, and responses that are not read."""
    load = asyncio.create_task(storm(server.url, answers, clients=clients, seconds=8))
    slow = [await _opened(server, part) for part in (_HALF_A_HEAD, _HALF_A_BODY) for _ in range(20)]
    for number in range(10):
        body = orjson.dumps({"sentences": [[f"{number}"] * 50] * 400})
        slow.append(await _opened(server, _head(len(body)) + body))  # the response is not read
    found: Counter[int] = Counter()
    unanswered = 0
    for request in BAD_REQUESTS * 3:
        try:
            found[await asyncio.to_thread(status_of, server, request)] += 1
        except TimeoutError:
            unanswered += 1
    outcome = await load
    for each in slow:
        each.close()
    most = own_memory(server.pid)
    statuses = ", ".join(f"{count} x {status}" for status, count in sorted(found.items()))
    remark = (
        f"statuses of malformed, huge and compressed ones: {statuses}; {len(slow)} slow ones, "
        f"{outcome.answered} answers to others; the front holds {most:.0f} MB"
    )
    row = _row("slow, malformed, huge clients", outcome, None, remark)
    # A queue that some of them have filled may refuse others before they are read.
    fair = (*range(400, 500), 503)
    harmed = sum(count for status, count in found.items() if status not in fair)
    return replace(row, hung=row.hung + unanswered, innocent=row.innocent + harmed)


async def leave(server: Running, answers: Answers, clients: int) -> Row:
    """Bulk requests whose clients hang up early."""
    abandoned, count = 0, _BULK
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
        for turn in range(5):
            while not await _left(server, http, turn, count):
                count //= 2  # refused: this machine is too slow for so many within the timeout
            abandoned += count
    await _until(lambda: server.metric("elmo_queue_sentences") == 0)
    await asyncio.sleep(0.5)
    computed = server.metric("elmo_batch_sentences_sum")
    outcome = await storm(server.url, answers, clients=clients, seconds=2)
    remark = f"{computed / abandoned:.1%} of {abandoned:,} abandoned sentences were computed"
    return _row("clients leave bulk requests", outcome, None, remark)


async def _left(server: Running, http: httpx.AsyncClient, turn: int, count: int) -> bool:
    """Hang up when the sentences of a request are queued; return whether they were."""
    body = {"sentences": [[f"{turn}-{count}-{i}", "b", "c"] * 4 for i in range(count)]}
    work = asyncio.create_task(http.post("/embed", json=body))
    await _until(lambda: work.done() or server.metric("elmo_queue_sentences") > count / 2)
    if work.done() and work.result().status_code != 200:
        return False
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    return True


async def terminate(server: Running, answers: Answers, clients: int) -> Row:
    """SIGTERM while requests are queued."""
    found, seconds = await _ended_while_asked(server, answers, 1)
    answered, refused = found.count(200), found.count(503)
    remark = f"{answered} answered, {refused} not admitted (503), exit {server.process.poll()}"
    innocent = len(found) - answered - refused
    return Row("SIGTERM under load", found.count(0), 0, innocent, seconds, remark)


async def terminate_twice(server: Running, answers: Answers, clients: int) -> Row:
    """A second SIGTERM, which ends the server without draining."""
    _, seconds = await _ended_while_asked(server, answers, 2)
    return Row("SIGTERM twice", 0, 0, 0, seconds, f"exit {server.process.poll()}")


async def kill_front(server: Running, answers: Answers, clients: int) -> Row:
    """SIGKILL to the front process: its children must end."""
    pids = [pid for each in children(server.pid).values() for pid in each]
    server.process.kill()
    start = time.perf_counter()
    await asyncio.to_thread(server.process.wait)
    await _until(lambda: not any(map(is_alive, pids)))
    seconds = time.perf_counter() - start
    return Row("kill -9 of the front", 0, 0, 0, seconds, f"{len(pids)} processes ended with it")


FAULTY = (sys.executable, "-m", "benchmarks.faulty")
RAISES = "!raises"
_TOGETHER = 64  # sentences of a batch of which one raises
_ROOM, _BATCH = 300, 1_024  # tokens that fit into the device's memory, and the largest batch
BODY_BYTES = 1 << 20

_SCENARIOS: list[tuple[Scenario, dict[str, Any]]] = [
    (bisect, {"command": (*FAULTY, "--raises", RAISES)}),
    (poison, {}),
    (kill_worker, {}),
    (kill_worker, {"workers_per_device": 2}),
    (stop_worker, {}),
    (kill_json, {"json_workers": 2}),
    (stop_json, {"json_workers": 2}),
    (memory, {"command": (*FAULTY, "--memory-tokens", str(_ROOM)), "max_batch_tokens": _BATCH}),
    (ten_times, {}),
    (leave, {}),
    (terminate, {}),
    (terminate_twice, {}),
    (kill_front, {}),
    (bad_clients, {"max_body_bytes": BODY_BYTES, "request_timeout_seconds": 20}),
]


def _head(length: int, *lines: str) -> bytes:
    """Return the head of a POST /embed."""
    fields = ["POST /embed HTTP/1.1", "host: elmo", f"content-length: {length}"]
    if not any(line.startswith("content-type") for line in lines):
        fields.append("content-type: application/json")
    return "\r\n".join([*fields, *lines, "", ""]).encode()


def _post(body: bytes, *lines: str) -> bytes:
    return _head(len(body), *lines) + body


_HALF_A_HEAD = b"POST /embed HTTP/1.1\r\nhost: elmo\r\nx-slow: "
_HALF_A_BODY = _head(1_000) + b'{"sentences": [["'
_PACKED = gzip.compress(bytes(100 * BODY_BYTES))
BAD_REQUESTS = [
    b"\x16\x03\x01 this is no HTTP\r\n\r\n",
    b"POST /embed HTTP/1.1\r\nhost: elmo\r\ncontent-length: x\r\n\r\n",
    _post(b'{"sentences": [["a"'),
    _post(b"\xff\xfe"),
    _post(b'{"sentences": ' + b"[" * 100_000),
    _post(b'{"sentences": "a"}'),
    _post(b'{"sentences": [["a"]], "layers": [7]}'),
    _post(b"<a/>", "content-type: text/xml"),
    _post(b'{"sentences": [["' + b"a" * BODY_BYTES + b'"]]}'),
    _head(1 << 50),
    _post(orjson.dumps({"sentences": [["a"] * 1_001]})),
    _post(orjson.dumps({"sentences": [[]] * 10_001})),
    _post(_PACKED, "content-encoding: gzip"),
    b"POST /embed HTTP/1.1\r\nhost: elmo\r\n" + b"x-long: " + b"a" * 200_000 + b"\r\n\r\n",
]


def status_of(server: Running, request: bytes, seconds: float = 20) -> int:
    """Send bytes and return the status of the response; 400 if the connection is closed instead.

    Raises TimeoutError when neither happens.
    """
    with _connected(server) as connection:
        connection.settimeout(seconds)
        # The server may refuse it before all of it is sent.
        with contextlib.suppress(ConnectionError):
            connection.sendall(request)
        try:
            start = connection.recv(64)
        except ConnectionError:
            start = b""
    return int(start[9:12]) if start.startswith(b"HTTP/1.1 ") else 400


async def _opened(server: Running, part: bytes) -> socket.socket:
    """Return a connection on which a part of a request was sent."""
    connection = await asyncio.to_thread(_connected, server)
    connection.sendall(part)
    return connection


def _connected(server: Running) -> socket.socket:
    port = httpx.URL(server.url).port
    assert port is not None
    return socket.create_connection(("127.0.0.1", port), timeout=10)


async def _send_bad_word(
    server: Running, answers: Answers, clients: int, word: str
) -> tuple[Storm, str]:
    """Send requests with a bad word while others run; only the bad ones may fail."""
    bad, asked = 0, 5 * clients
    load = asyncio.create_task(storm(server.url, answers, clients=clients, seconds=5))
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
        for number in range(asked):
            body = {"sentences": [[f"a{number}", word]]}
            bad += (await http.post("/embed", json=body)).status_code == 500
    outcome = await load
    remark = f"{bad} of {asked} poisoned requests got 500, {outcome.answered} others 200"
    if bad < asked:
        outcome.faults.append(remark)
    return outcome, remark


async def _strike(
    server: Running,
    answers: Answers,
    clients: int,
    name: str,
    number: signal.Signals,
    role: str,
    seconds: float,
) -> Row:
    """Send a signal to a child process under load, and measure the time until it is replaced."""
    whole = len(children(server.pid)[role])
    load = asyncio.create_task(storm(server.url, answers, clients=clients, seconds=seconds))
    await asyncio.sleep(_BEFORE_SECONDS)
    struck = children(server.pid)[role][0]
    restarts = server.metric("elmo_worker_restarts_total")
    os.kill(struck, number)
    start = time.perf_counter()
    await _until(lambda: not is_alive(struck))
    if role == "worker":
        await _until(lambda: server.metric("elmo_worker_restarts_total") > restarts)
        await _until(lambda: server.metric("elmo_worker_up") == whole)
    else:
        await _until(lambda: len(children(server.pid)[role]) == whole)
    recovered = time.perf_counter() - start
    outcome = await load
    lost = server.metric("elmo_failures_total", reason="worker_lost")
    remark = f"{outcome.answered} answered, {outcome.refused.total()} refused, {lost:.0f}"
    return _row(name, outcome, recovered, f"{remark} running sentences lost")


async def _ended_while_asked(
    server: Running, answers: Answers, signals: int
) -> tuple[list[int], float]:
    """Fill the queue, end the server; return all statuses (0: no response) and the seconds."""
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


async def _until(condition: Callable[[], bool], seconds: float = 180) -> None:
    start = time.monotonic()
    while not await asyncio.to_thread(condition):
        if time.monotonic() - start > seconds:
            raise TimeoutError("the server did not recover")
        await asyncio.sleep(0.02)


def _row(fault: str, outcome: Storm, seconds: float | None, remark: str) -> Row:
    return Row(
        fault, outcome.lost, outcome.wrong, outcome.failed.total() + outcome.late, seconds, remark
    )


def main() -> int:
    """Cause every fault, print the table, and fail if a good request was harmed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint", nargs="?", type=Path, help="default: a tiny one")
    parser.add_argument("--clients", type=int, default=20)
    names = sorted({scenario.__name__ for scenario, _ in _SCENARIOS})
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    options = parser.parse_args()
    print(f"{options.clients} clients; {describe()}\n")
    print("| fault | hung | wrong answers | innocent failures | seconds | |")
    print("|---|--:|--:|--:|--:|---|")
    harmed = False
    with tempfile.TemporaryDirectory() as folder:
        model = _model(options.checkpoint, Path(folder, "model"))
        answers = Answers(str(model), sentences(None, 300, random.Random(2)))
        for number, (scenario, settings) in enumerate(_SCENARIOS):
            if scenario.__name__ not in options.only:
                continue
            place = Path(folder, str(number))
            start = partial(running, place, model=model, tasks=place / "tasks", **settings)
            with start() as server:
                wanted = settings.get("workers_per_device", 1)
                while server.metric("elmo_worker_up") != wanted:
                    time.sleep(0.05)
                try:
                    row = asyncio.run(scenario(server, answers, options.clients))
                except TimeoutError as error:
                    row = Row(scenario.__name__, 1, 0, 0, None, str(error))
            seconds = "" if row.seconds is None else f"{row.seconds:.1f}"
            print(
                f"| {row.fault} | {row.hung} | {row.wrong} | {row.innocent} | {seconds} "
                f"| {row.remark} |",
                flush=True,
            )
            harmed |= bool(row.hung or row.wrong or row.innocent)
    return 1 if harmed else 0


def _model(checkpoint: Path | None, folder: Path) -> Path:
    """Return a pair of files in which vectors of words with a ~ are not finite."""
    if checkpoint is None:
        write_pair(folder)
    else:
        folder.mkdir()
        for file in checkpoint.iterdir():
            if file.suffix in (".json", ".hdf5"):
                shutil.copy(file, folder)
    return poisoned_by(folder, "~")


if __name__ == "__main__":
    sys.exit(main())
