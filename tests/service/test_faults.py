"""Faults in a running server: requests are answered, refused with Retry-After, or fail alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.support.answers import Answers, sentences
from tests.support.checkpoints import poisoned_by, truncated, write_pair
from tests.support.http_messages import decoded
from tests.support.processes import children, is_alive
from tests.support.servers import Running, running, spawned, until

pytestmark = pytest.mark.long

NPZ = {"accept": "application/x-npz"}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model; the vectors of words with a ~ are not finite."""
    return poisoned_by(write_pair(tmp_path_factory.mktemp("model") / "tiny"), "~")


@pytest.fixture(scope="module")
def answers(checkpoint: Path) -> Answers:
    return Answers(str(checkpoint), sentences(None, 200, random.Random(8)))


@pytest.fixture
def server(tmp_path: Path, checkpoint: Path) -> Iterator[Running]:
    with running(tmp_path, model=checkpoint, tasks=tmp_path / "tasks") as server:
        yield server


def is_ready(server: Running) -> bool:
    return httpx.get(server.url + "/health/ready").status_code == 200


def worker_of(server: Running) -> int:
    return children(server.pid)["worker"][0]


def check(response: httpx.Response, answers: Answers, indices: list[int]) -> None:
    assert response.status_code == 200, response.text
    for array, index in zip(decoded("application/x-npz", response.content), indices, strict=True):
        assert answers.difference(array, index, {}) <= 1


# The worker


def test_a_word_without_finite_vectors_fails_alone(server: Running, answers: Answers) -> None:
    with server.client() as client:
        bad = client.post("/embed", json={"sentences": [answers.sentences[3], ["a", "~"]]})
        good = client.post("/embed", json={"sentences": answers.sentences[:9]}, headers=NPZ)

    assert bad.status_code == 500
    assert [fault["pointer"] for fault in bad.json()["errors"]] == ["/sentences/1"]
    check(good, answers, list(range(9)))
    assert server.metric("elmo_worker_restarts_total") == 0


# The end


Asked = list[asyncio.Task[httpx.Response]]


@asynccontextmanager
async def queued(server: Running, answers: Answers) -> AsyncIterator[Asked]:
    """Send twenty requests of 50 sentences, and yield when most of them are in the queue.

    The worker is stopped meanwhile, so that the queue stays full.
    """
    worker = worker_of(server)
    os.kill(worker, signal.SIGSTOP)
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:

        async def ask(start: int) -> httpx.Response:
            sentences = [answers.sentences[(start + i) % 200] for i in range(50)]
            # Distinct outputs: identical sentences would be computed once.
            mix = {"weights": [start / 100, 0.0, 0.0]}
            body = {"sentences": sentences, "mix": mix}
            return await client.post("/embed", json=body, headers=NPZ)

        tasks = [asyncio.create_task(ask(index * 7)) for index in range(20)]
        await asyncio.to_thread(until, lambda: server.metric("elmo_queue_sentences") > 100)
        try:
            yield tasks
        finally:
            os.kill(worker, signal.SIGCONT)
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_sigterm_under_load_answers_every_admitted_request(
    server: Running, answers: Answers
) -> None:
    worker = worker_of(server)
    async with queued(server, answers) as tasks:
        server.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(until, lambda: not is_ready(server))
        late = await asyncio.to_thread(
            httpx.post, server.url + "/embed", json={"sentences": [["late"]]}
        )
        os.kill(worker, signal.SIGCONT)
        found = [await task for task in tasks]

    assert late.status_code == 503
    assert late.headers["retry-after"]
    admitted = [each for each in found if each.status_code == 200]
    # Requests that were still being read when the signal came are refused like the late one.
    assert len(admitted) > 2
    assert {each.status_code for each in found} <= {200, 503}
    for each in admitted:
        assert all(np.isfinite(array).all() for array in decoded("application/x-npz", each.content))
    assert await asyncio.to_thread(server.process.wait, 60) == 0
    assert "drain timeout" not in server.log


async def test_a_second_sigterm_ends_the_server_without_draining(
    server: Running, answers: Answers
) -> None:
    pids = [pid for each in children(server.pid).values() for pid in each]
    async with queued(server, answers) as tasks:
        server.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(until, lambda: not is_ready(server))
        server.process.send_signal(signal.SIGTERM)

        assert await asyncio.to_thread(server.process.wait, 60) == 1
        found = await asyncio.gather(*tasks, return_exceptions=True)
    assert not [each for each in found if getattr(each, "status_code", 0) == 200]
    until(lambda: not any(map(is_alive, pids)))


def test_sigterm_while_the_model_loads_ends_the_server(tmp_path: Path, checkpoint: Path) -> None:
    with running(tmp_path, until_ready=False, model=checkpoint) as server:
        assert server.stop() == 0


async def test_a_killed_front_leaves_no_process_behind(
    tmp_path: Path, checkpoint: Path, answers: Answers
) -> None:
    with spawned(tmp_path, model=checkpoint) as server:
        pids = [pid for each in children(server.pid).values() for pid in each]
        assert len(pids) >= 2
        async with queued(server, answers):
            server.process.kill()

        until(lambda: not any(map(is_alive, pids)))


# The start


@pytest.mark.parametrize("damage", [truncated, lambda folder: poisoned_by(folder, "a")])
def test_a_checkpoint_that_cannot_be_served_ends_the_start_with_one_line(
    tmp_path: Path, damage: Callable[[Path], Path]
) -> None:
    folder = damage(write_pair(tmp_path / "model"))
    with (
        contextlib.suppress(RuntimeError),
        running(tmp_path / "server", until_ready=False, model=folder) as server,
    ):
        assert server.process.wait(120) == 1
    log = (tmp_path / "server" / "serve.log").read_text()

    (line,) = [line for line in log.splitlines() if "cannot serve" in line]
    assert "model" in line
    assert "Traceback" not in log
