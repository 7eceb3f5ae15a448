"""Several servers on one task folder: each of them answers for the tasks and jobs of all."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from elmo_serve.output import Output
from tests.support.fits import ENDED, body, fit
from tests.support.gated_server import close_gate, gated
from tests.support.served import Served, served
from tests.support.servers import Running, running

TASK = {"weights": [1, 2, 3], "gamma": 1.0}
OWN_DISK = "mount -t tmpfs -o size=4m none {folder} && exec {python} -m tests.support.gated_server"
"""A server whose task folder is a file system of its own, which can be filled."""


@asynccontextmanager
async def two(tasks: Path, *, is_open: bool = True) -> AsyncIterator[tuple[Served, Served]]:
    """Serve one task folder twice, in the process of the test."""
    async with served(tasks=tasks, is_open=is_open) as one, served(tasks=tasks) as other:
        yield one, other


async def gamma(s: Served) -> float | None:
    """Return the scale with which a server computes the task `ner`; None: it knows none."""
    response = await s.client.post("/embed", json={"sentences": [["cat"]], "task": "ner"})
    if response.status_code == 404:
        return None
    assert response.status_code == 200, response.text
    (output,) = s.worker.batches[-1].outputs
    assert isinstance(output, Output)
    assert output.weights == (1, 2, 3)
    return output.gamma


async def has_gamma(s: Served, wanted: float | None) -> None:
    """Wait until a server computes the task `ner` with a scale."""
    async with asyncio.timeout(60):
        while await gamma(s) != wanted:  # noqa: ASYNC110  # it looks into the folder in a thread
            await asyncio.sleep(0.02)


async def test_a_task_is_known_changed_and_deleted_on_all_servers(tmp_path: Path) -> None:
    async with two(tmp_path) as (one, other):
        assert await gamma(other) is None
        (await one.client.put("/tasks/ner", json=TASK)).raise_for_status()
        await has_gamma(other, 1.0)
        assert await other.get("/tasks/ner") == await one.get("/tasks/ner")

        (await other.client.put("/tasks/ner", json={**TASK, "gamma": 2.0})).raise_for_status()
        await has_gamma(one, 2.0)

        (await one.client.delete("/tasks/ner")).raise_for_status()
        await has_gamma(other, None)


async def test_every_server_lists_a_job_and_returns_its_head(tmp_path: Path) -> None:
    async with two(tmp_path, is_open=False) as (owner, other):
        job_id = await owner.fit("one")
        assert [job["id"] for job in (await other.get("/jobs"))["jobs"]] == [job_id]
        assert (await other.get(f"/jobs/{job_id}"))["state"] in ("queued", "running")
        assert (await other.client.get(f"/jobs/{job_id}/head")).status_code == 409
        assert (await other.client.post("/tasks/one/fit", json=body())).status_code == 409
        owner.worker.open()

        job = await owner.ended(job_id)

        assert await other.get(f"/jobs/{job_id}") == job
        assert job["state"] == "done"
        heads = [await each.client.get(f"/jobs/{job_id}/head") for each in (owner, other)]
        assert heads[0].content == heads[1].content
        async with asyncio.timeout(60):
            while await other.get("/tasks/one") != job["task"]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def test_every_server_cancels_a_job_that_waits_or_runs(tmp_path: Path) -> None:
    async with two(tmp_path, is_open=False) as (owner, other):
        first, second = await owner.fit("one"), await owner.fit("two")
        await owner.runs(first)

        for job_id in (second, first, first):  # the last one has ended
            cancelled = (await other.client.delete(f"/jobs/{job_id}")).json()
            assert cancelled["state"] == "cancelled"
            assert (await owner.get(f"/jobs/{job_id}"))["state"] == "cancelled"

        assert owner.metric("elmo_jobs_ended_total", state="cancelled") == 2
        assert not list((tmp_path / ".jobs").glob("*.cancel"))


async def test_a_stopped_owner_cancels_its_job_when_it_goes_on(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    with gated(tmp_path / "owner", tasks=tasks, drain_timeout_seconds=0) as owner:
        close_gate(owner)
        with owner.client() as client:
            job_id = fit(client, "one")
        async with served(tasks=tasks) as other:
            owner.process.send_signal(signal.SIGSTOP)
            try:
                refused = await other.client.delete(f"/jobs/{job_id}")
            finally:
                owner.process.send_signal(signal.SIGCONT)

            assert refused.status_code == 503 and "another server" in refused.json()["detail"]
            assert int(refused.headers["retry-after"]) >= 1
            assert (await other.ended(job_id))["state"] == "cancelled"


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


@pytest.mark.skipif(not can_mount(), reason="this user may not mount a file system (unshare)")
def test_a_full_disk_refuses_tasks_and_jobs_and_nothing_else(tmp_path: Path) -> None:
    with on_own_disk(tmp_path) as (server, disk), server.client() as client:
        client.put("/tasks/ner", json=TASK).raise_for_status()
        with (disk / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError):
            while True:
                filler.write(bytes(4096))

        for path, sent in (("/tasks/new", TASK), ("/tasks/ner", {**TASK, "gamma": 3.0})):
            refused = client.put(path, json=sent)
            assert refused.status_code == 503, refused.text
            assert int(refused.headers["retry-after"]) >= 1
        assert client.post("/tasks/new/fit", json=body()).status_code == 503
        assert client.get("/tasks/ner").json()["gamma"] == 1.0
        asked = {"sentences": [["cat"]], "task": "ner"}
        assert client.post("/embed", json=asked).status_code == 200
        assert [each["name"] for each in client.get("/tasks").json()["tasks"]] == ["ner"]
        assert client.get("/jobs").json() == {"jobs": []}
        assert client.get("/health/ready").status_code == 200

        (disk / "filler").unlink()
        assert client.put("/tasks/new", json=TASK).status_code == 201
        close_gate(server)
        job_id = fit(client, "fitted")
        assert client.delete(f"/jobs/{job_id}").json()["state"] in ENDED
