"""Cancellations that another server asks for: found by the owner, whenever it looks."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from elmo_serve.errors import Unavailable, UnknownJob
from elmo_serve.jobs.cancel_requests import CancelRequests
from elmo_serve.jobs.store import Job, JobFolder


class Owner:
    """A server with jobs that it ends when it is told to."""

    def __init__(self, tasks: Path) -> None:
        self.folder = JobFolder(tasks)
        self.jobs: dict[str, Job] = {}
        self.requests = CancelRequests(
            self.folder, self.cancel, self.jobs.keys, poll_seconds=0.01, wait_seconds=0.02
        )

    def run(self, number: int) -> Job:
        job = Job(f"{number:016x}", "ner", "english", "token", self.folder.owner, time.time())
        self.jobs[job.id] = job
        self.folder.write(job)
        return job

    async def cancel(self, job_id: str) -> None:
        job = self.jobs.pop(job_id, None)
        if job is None:
            raise UnknownJob("it is gone")
        self.folder.write(replace(job, state="cancelled", ended_at=time.time()))


async def asked(server: Owner, job: Job) -> Job | None:
    """Return a job of another server as it has ended; None where that does not answer in time."""
    try:
        return await server.requests.ask(job)
    except Unavailable:
        return None


async def watching() -> None:
    """Wait for the end of the watch that runs."""
    own = asyncio.current_task()
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task is not own))


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    owner = Owner(tmp_path)
    yield owner
    owner.folder.close()


@pytest.fixture
def other(tmp_path: Path) -> Owner:
    return Owner(tmp_path)


async def test_the_owner_ends_the_job_that_was_asked_for(owner: Owner, other: Owner) -> None:
    first, second = owner.run(1), owner.run(2)
    owner.requests.watch()

    # Asked again until the owner, which looks every 10 ms, has had the processor time for it.
    async with asyncio.timeout(60):
        while (found := await asked(other, first)) is None:
            pass
    assert found.state == "cancelled"

    assert list(owner.jobs) == [second.id]
    assert owner.folder.asked_to_cancel([first.id, second.id]) == []
    owner.requests.close()


async def test_a_request_outlives_the_client_that_waits_for_it(owner: Owner, other: Owner) -> None:
    job = owner.run(1)

    with pytest.raises(Unavailable, match="has not answered yet"):
        await other.requests.ask(job)

    assert owner.folder.asked_to_cancel([job.id]) == [job.id]
    owner.requests.watch()
    await watching()
    ended = other.folder.read(job.id)
    assert ended is not None and ended.state == "cancelled"


async def test_the_watch_ends_with_the_last_job(owner: Owner) -> None:
    job = owner.run(1)
    owner.folder.ask_to_cancel(job.id)
    owner.requests.watch()

    await watching()

    assert not owner.jobs
    owner.run(2)
    owner.requests.watch()  # starts again
    owner.requests.close()


def requests_in(tasks: Path) -> list[str]:
    return [path.stem for path in (tasks / ".jobs").glob("*.cancel")]


def test_requests_of_jobs_that_are_gone_are_deleted(
    owner: Owner, other: Owner, tmp_path: Path
) -> None:
    job = owner.run(1)
    other.folder.ask_to_cancel(job.id)
    other.folder.ask_to_cancel("f" * 16)  # such a job never was

    other.folder.tidy(3600)
    assert requests_in(tmp_path) == [job.id]

    owner.folder.close()
    other.folder.tidy(3600)
    assert requests_in(tmp_path) == []
    found = other.folder.read(job.id)
    assert found is not None and found.state == "failed"
