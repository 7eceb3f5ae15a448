"""Several servers on one task folder: each of them answers for the tasks of all."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from elmo_serve.output import Output
from tests.support.in_process import InProcess, in_process
from tests.support.servers import Running, running

TASK = {"weights": [1, 2, 3], "gamma": 1.0}
OWN_DISK = "mount -t tmpfs -o size=4m none {folder} && exec {python} -m tests.support.gated_server"
"""A server whose task folder is a file system of its own, which can be filled."""


@asynccontextmanager
async def two(tasks: Path) -> AsyncIterator[tuple[InProcess, InProcess]]:
    """Serve one task folder twice, in the process of the test."""
    async with in_process(tasks=tasks) as one, in_process(tasks=tasks) as other:
        yield one, other


async def gamma(s: InProcess) -> float | None:
    """Return the scale with which a server computes the task `ner`; None: it knows none."""
    response = await s.client.post("/embed", json={"sentences": [["cat"]], "task": "ner"})
    if response.status_code == 404:
        return None
    assert response.status_code == 200, response.text
    (output,) = s.worker.batches[-1].outputs
    assert isinstance(output, Output)
    assert output.weights == (1, 2, 3)
    return output.gamma


async def has_gamma(s: InProcess, wanted: float | None) -> None:
    """Wait until a server computes the task `ner` with a scale."""
    async with asyncio.timeout(60):
        while await gamma(s) != wanted:  # noqa: ASYNC110  # it looks into the folder in a thread
            await asyncio.sleep(0.02)


async def test_a_task_is_known_changed_and_deleted_on_all_servers(tmp_path: Path) -> None:
    async with two(tmp_path) as (one, other):
        assert await gamma(other) is None
        (await one.client.put("/tasks/ner", json=TASK)).raise_for_status()
        await has_gamma(other, 1.0)
        found = [(await each.client.get("/tasks/ner")).json() for each in (one, other)]
        assert found[0] == found[1]

        (await other.client.put("/tasks/ner", json={**TASK, "gamma": 2.0})).raise_for_status()
        await has_gamma(one, 2.0)

        (await one.client.delete("/tasks/ner")).raise_for_status()
        await has_gamma(other, None)


@contextmanager
def on_own_disk(folder: Path) -> Iterator[tuple[Running, Path]]:
    """Run a server whose task folder is a disk of 4 MiB; also yield a path to that disk."""
    tasks = folder / "tasks"
    tasks.mkdir(parents=True)
    script = OWN_DISK.format(folder=tasks, python=sys.executable)
    command = ("unshare", "--map-root-user", "--mount", "sh", "-c", script)
    with running(folder, command=command, devices="cpu", tasks=tasks) as server:
        yield server, Path(f"/proc/{server.pid}/root{tasks}")


def can_mount() -> bool:
    """Tell whether a process of this user may have file systems of its own."""
    command = ["unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.long
@pytest.mark.skipif(not can_mount(), reason="this user may not mount a file system (unshare)")
def test_a_full_disk_refuses_tasks_and_nothing_else(tmp_path: Path) -> None:
    with on_own_disk(tmp_path) as (server, disk), server.client() as client:
        client.put("/tasks/ner", json=TASK).raise_for_status()
        with (disk / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError):
            while True:
                filler.write(bytes(4096))

        for path, sent in (("/tasks/new", TASK), ("/tasks/ner", {**TASK, "gamma": 3.0})):
            refused = client.put(path, json=sent)
            assert refused.status_code == 503, refused.text
            assert int(refused.headers["retry-after"]) >= 1
        assert client.get("/tasks/ner").json()["gamma"] == 1.0
        asked = {"sentences": [["cat"]], "task": "ner"}
        assert client.post("/embed", json=asked).status_code == 200
        assert [each["name"] for each in client.get("/tasks").json()["tasks"]] == ["ner"]
        assert client.get("/health/ready").status_code == 200

        (disk / "filler").unlink()
        assert client.put("/tasks/new", json=TASK).status_code == 201
