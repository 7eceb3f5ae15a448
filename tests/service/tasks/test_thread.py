"""A task folder that hangs: requests for it are refused in time, and the process ends."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from elmo_serve.errors import Unavailable
from elmo_serve.tasks.opening import TaskThread
from tests.support.in_process import in_process

TASK = {"weights": [0, 0, 0]}
HANGS = """
import asyncio, threading
from elmo_serve.errors import Unavailable
from elmo_serve.tasks.opening import TaskThread

async def main():
    try:
        await TaskThread(seconds=0.01).run(threading.Event().wait)
    except Unavailable:
        print("refused")

asyncio.run(main())
"""


async def test_calls_run_one_after_another_and_one_that_was_refused_is_not_made() -> None:
    gate, made = threading.Event(), list[int]()
    thread = TaskThread(seconds=0.01)

    with pytest.raises(Unavailable, match="does not answer"):
        await thread.run(gate.wait)
    with pytest.raises(Unavailable):
        await thread.run(made.append, 1)
    thread._seconds = 300.0  # from here on only a fault ends the wait
    calls = [asyncio.ensure_future(thread.run(made.append, number)) for number in (2, 3)]
    gate.set()
    await asyncio.gather(*calls)

    assert made == [2, 3]
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 / 0)
    thread.close()


async def test_a_folder_is_watched_until_the_end() -> None:
    seen = asyncio.Event()
    loop = asyncio.get_running_loop()
    thread = TaskThread()

    thread.watch(lambda: loop.call_soon_threadsafe(seen.set))

    await seen.wait()  # or the test hangs
    thread.close()


async def test_while_the_folder_hangs_everything_else_is_answered(tmp_path: Path) -> None:
    gate = threading.Event()
    async with in_process(tasks=tmp_path) as serving:
        client = serving.client
        (await client.put("/tasks/known", json=TASK)).raise_for_status()
        thread = serving.server.task_thread
        thread._seconds = 0.01
        with pytest.raises(Unavailable):
            await thread.run(gate.wait)
        puts = [client.put(f"/tasks/t{number}", json=TASK) for number in range(40)]
        refused = [*await asyncio.gather(*puts), await client.delete("/tasks/known")]
        assert {response.status_code for response in refused} == {503}
        assert int(refused[0].headers["retry-after"]) >= 1

        assert (await client.get("/metrics")).status_code == 200
        assert (await client.get("/tasks/known")).status_code == 200
        body = {"sentences": [["cat"]], "task": "known"}
        assert (await client.post("/embed", json=body)).status_code == 200

        thread._seconds = 300.0
        gate.set()
        assert (await client.put("/tasks/new", json=TASK)).status_code == 201
        names = [task["name"] for task in (await client.get("/tasks")).json()["tasks"]]
        assert names == ["known", "new"]


def test_a_process_ends_while_the_folder_hangs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS], check=False, capture_output=True, text=True, timeout=300
    )

    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr
