"""Cancellations that another server asks for: found by the owner, whenever it looks."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from elmo_serve.errors import Unavailable, UnknownJob
from elmo_serve.jobs.cancel_requests import CancelRequests
from elmo_serve.jobs.job import Job
from elmo_serve.jobs.job_folder import JobFolder


class Owner:
    """A server with jobs that it ends when it is told to."""

    def __init__(self, tasks: Path) -> None:
        self.folder = JobFolder(tasks)
        self.jobs: dict[str, Job] = {}
        self.requests = CancelRequests(self.folder, self.cancel, self.jobs.keys)

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

    assert (await other.requests.ask(first)).state == "cancelled"

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


@pytest.mark.parametrize("lose", [lambda each: each.folder.close(), lambda each: None])
def test_requests_of_jobs_that_are_gone_are_deleted(
    owner: Owner, other: Owner, tmp_path: Path, lose: Callable[[Owner], None]
) -> None:
    job = owner.run(1)
    other.folder.ask_to_cancel(job.id)
    other.folder.ask_to_cancel("f" * 16)
    lose(owner)

    other.folder.tidy(3600)

    left = [path.stem for path in (tmp_path / ".jobs").glob("*.cancel")]
    found = other.folder.read(job.id)
    assert found is not None
    assert left == ([] if found.has_ended else [job.id])
