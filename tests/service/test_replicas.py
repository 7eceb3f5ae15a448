"""Several servers on one task folder: each of them answers for the tasks and jobs of all."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from elmo_serve.http.media_types import safetensors
from tests.support.fits import body, ended, fit
from tests.support.gated_server import close_gate, gated, open_gate
from tests.support.servers import SMALL, Running, running

SENTENCES = [["The", "cat", "sat"], ["a"]]
OWN_DISK = "mount -t tmpfs -o size=4m none {folder} && exec {elmo} serve"
"""A server whose task folder is a file system of its own, which can be filled."""


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[Running, httpx.Client, httpx.Client]]:
    """Two servers of one task folder, their clients, and no batch that ends on the first one."""
    folder = tmp_path / "tasks"
    with (
        gated(tmp_path / "owner", tasks=folder, drain_timeout_seconds=0) as owner,
        gated(tmp_path / "other", tasks=folder, drain_timeout_seconds=0) as other,
        owner.client() as client,
        other.client() as elsewhere,
    ):
        close_gate(owner)
        yield owner, client, elsewhere


def mixed(client: httpx.Client) -> NDArray[np.float32]:
    """Return the vectors of one sentence by the task `ner`."""
    response = client.post(
        "/embed",
        json={"sentences": [["cat"]], "task": "ner"},
        headers={"Accept": safetensors.ENCODER.media_type},
    )
    response.raise_for_status()
    return safetensors.decode(response.content)[0]


def test_a_task_is_known_changed_and_deleted_on_all_servers(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    with (
        running(tmp_path / "one", model=SMALL, tasks=tasks) as server,
        running(tmp_path / "two", model=SMALL, tasks=tasks) as other,
        server.client() as one,
        other.client() as two,
    ):
        assert two.get("/tasks/ner").status_code == 404
        one.put("/tasks/ner", json={"weights": [1, 2, 3], "gamma": 1.0}).raise_for_status()
        server.until(lambda: two.get("/tasks/ner").status_code == 200)
        before = mixed(two)
        np.testing.assert_allclose(mixed(one), before, atol=1e-6)

        two.put("/tasks/ner", json={"weights": [1, 2, 3], "gamma": 2.0}).raise_for_status()
        server.until(lambda: one.get("/tasks/ner").json()["gamma"] == 2.0)
        np.testing.assert_allclose(mixed(one), 2 * before, atol=1e-5)

        one.delete("/tasks/ner").raise_for_status()
        server.until(lambda: two.get("/tasks/ner").status_code == 404)


def test_every_server_lists_a_job_and_returns_its_head(
    held: tuple[Running, httpx.Client, httpx.Client],
) -> None:
    owner, client, elsewhere = held
    job_id = fit(client, "one")
    assert [job["id"] for job in elsewhere.get("/jobs").json()["jobs"]] == [job_id]
    assert elsewhere.get(f"/jobs/{job_id}").json()["state"] in ("queued", "running")
    assert elsewhere.get(f"/jobs/{job_id}/head").status_code == 409
    assert elsewhere.post("/tasks/one/fit", json=body()).status_code == 409
    open_gate(owner)

    job = ended(owner, client, job_id)

    assert elsewhere.get(f"/jobs/{job_id}").json() == job
    assert job["state"] == "done"
    assert (
        elsewhere.get(f"/jobs/{job_id}/head").content == client.get(f"/jobs/{job_id}/head").content
    )
    owner.until(lambda: elsewhere.get("/tasks/one").status_code == 200)
    assert elsewhere.get("/tasks/one").json() == job["task"]


def test_every_server_cancels_a_job_that_waits_or_runs(
    held: tuple[Running, httpx.Client, httpx.Client], tmp_path: Path
) -> None:
    owner, client, elsewhere = held
    first, second = fit(client, "one"), fit(client, "two")
    owner.until(lambda: elsewhere.get(f"/jobs/{first}").json()["state"] == "running")

    for job_id in (second, first):
        assert elsewhere.delete(f"/jobs/{job_id}").json()["state"] == "cancelled"
        assert client.get(f"/jobs/{job_id}").json()["state"] == "cancelled"

    assert owner.metric("elmo_jobs_ended_total", state="cancelled") == 2
    assert elsewhere.delete(f"/jobs/{first}").json()["state"] == "cancelled"  # it has ended
    assert not list((tmp_path / "tasks" / ".jobs").glob("*.cancel"))


def test_a_stopped_owner_cancels_its_job_when_it_goes_on(
    held: tuple[Running, httpx.Client, httpx.Client],
) -> None:
    owner, client, elsewhere = held
    job_id = fit(client, "one")
    owner.process.send_signal(signal.SIGSTOP)
    try:
        refused = elsewhere.delete(f"/jobs/{job_id}")
    finally:
        owner.process.send_signal(signal.SIGCONT)

    assert refused.status_code == 503 and "another server" in refused.json()["detail"]
    assert int(refused.headers["retry-after"]) >= 1
    assert ended(owner, elsewhere, job_id)["state"] == "cancelled"


@contextmanager
def on_own_disk(folder: Path) -> Iterator[tuple[Running, Path]]:
    """Run a server whose task folder is a disk of 4 MiB; also yield a path to that disk."""
    tasks = folder / "tasks"
    tasks.mkdir(parents=True)
    elmo = Path(sys.executable).with_name("elmo")
    script = OWN_DISK.format(folder=tasks, elmo=elmo)
    command = ("unshare", "--map-root-user", "--mount", "sh", "-c", script)
    with running(folder, command=command, model=SMALL, tasks=tasks) as server:
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
        task = {"weights": [1, 2, 3], "gamma": 1.0}
        client.put("/tasks/ner", json=task).raise_for_status()
        before = mixed(client)
        with (disk / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError):
            while True:
                filler.write(bytes(4096))

        for path, sent in (("/tasks/new", task), ("/tasks/ner", {**task, "gamma": 3.0})):
            refused = client.put(path, json=sent)
            assert refused.status_code == 503, refused.text
            assert int(refused.headers["retry-after"]) >= 1
        assert client.post("/tasks/new/fit", json=body()).status_code == 503
        np.testing.assert_allclose(mixed(client), before, atol=1e-6)
        assert [each["name"] for each in client.get("/tasks").json()["tasks"]] == ["ner"]
        assert client.get("/jobs").json() == {"jobs": []}
        assert client.get("/health/ready").status_code == 200

        (disk / "filler").unlink()
        assert client.put("/tasks/new", json=task).status_code == 201
        assert ended(server, client, fit(client, "fitted"))["state"] == "done"
