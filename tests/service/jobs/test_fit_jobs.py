"""The jobs of a server: one runs, the others wait, every end is kept."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from elmo_serve.errors import Conflict, TooLarge, Unavailable, UnknownJob
from elmo_serve.jobs.bulk_queue import BulkQueue
from elmo_serve.jobs.fit_jobs import SERVER_STOPPED, FitJobs
from elmo_serve.jobs.store import Job, JobFolder
from elmo_serve.settings import Settings
from elmo_serve.tasks.registry import TaskRegistry
from tests.support.engines import bench
from tests.support.fit_tasks import fit_host, fit_plan, fit_queue, fit_registry
from tests.support.gated_worker import GatedWorker

SETTINGS = Settings(max_jobs=3, max_client_jobs=3)


class Jobs:
    """The jobs of one model, over a worker that waits until it is opened."""

    def __init__(
        self, jobs: FitJobs, queue: BulkQueue, registry: TaskRegistry, worker: GatedWorker
    ) -> None:
        self.jobs, self.queue, self.registry, self.worker = jobs, queue, registry, worker

    async def submit(self, name: str) -> Job:
        with self.jobs.slots.taking("somebody") as slot:
            return await self.jobs.submit(name, self.queue, self.registry, fit_plan(), slot)

    async def ended(self, job: Job) -> Job:
        while not (found := await self.jobs.get(job.id)).has_ended:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        return found

    async def runs(self, job: Job) -> None:
        while (await self.jobs.get(job.id)).state != "running":  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@asynccontextmanager
async def jobs_of(folder: Path, settings: Settings = SETTINGS) -> AsyncIterator[Jobs]:
    worker = GatedWorker(is_open=False)
    async with bench(lambda: worker) as b:
        made = FitJobs(settings, fit_host(folder / "scratch"))
        await made.open(folder)
        try:
            yield Jobs(made, fit_queue(b.engine), fit_registry(b.engine, folder), worker)
        finally:  # a test that fails must end as well
            await made.close()
            worker.open()


async def test_jobs_run_one_after_another_and_are_listed_the_newest_first(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as j:
        first, second = await j.submit("one"), await j.submit("two")
        await j.runs(first)
        assert [(job.name, job.state) for job in await j.jobs.list()] == [
            ("two", "queued"),
            ("one", "running"),
        ]

        j.worker.open()

        assert [(await j.ended(job)).state for job in (first, second)] == ["done", "done"]
        assert len(await j.jobs.head(second.id)) > 0
        assert j.registry.get("two").name == "two"


async def test_jobs_that_wait_and_run_are_cancelled(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as j:
        first, second = await j.submit("one"), await j.submit("two")
        await j.runs(first)
        with pytest.raises(Conflict, match="has a head when it is done"):
            await j.jobs.head(first.id)

        assert (await j.jobs.cancel(second.id)).state == "cancelled"
        assert (await j.jobs.cancel(first.id)).state == "cancelled"
        assert (await j.jobs.cancel(first.id)).state == "cancelled"  # it has ended: nothing changes


@dataclass(frozen=True)
class HeldCreation:
    """Holds the creation of a job back when its file is there."""

    is_written: threading.Event = field(default_factory=threading.Event)
    may_go_on: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def held(self, monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> Iterator[None]:
        """Hold it back until the block ends, also where the test fails in it."""
        create = JobFolder.create

        def held(folder: JobFolder, job: Job) -> None:
            create(folder, job)
            self.is_written.set()
            self.may_go_on.wait()
            if fails:
                folder.artefacts(job.id).with_suffix(".json").unlink()
                raise Unavailable("no room", retry_after=1)

        monkeypatch.setattr(JobFolder, "create", held)
        try:
            yield
        finally:
            self.may_go_on.set()

    async def listed(self, jobs: FitJobs, submitted: asyncio.Task[Job]) -> Job:
        """Return the job that a list shows meanwhile. Raises an error of its creation."""
        while not self.is_written.is_set():
            if submitted.done():
                return submitted.result()
            await asyncio.sleep(0.001)
        (job,) = await jobs.list()
        return job


async def test_a_job_is_cancelled_before_its_client_knows_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is there, so that a list shows it, while its request has not been answered."""
    creation = HeldCreation()
    async with jobs_of(tmp_path) as j:
        with creation.held(monkeypatch):
            submitted = asyncio.create_task(j.submit("one"))
            job = await creation.listed(j.jobs, submitted)
            cancelled = [asyncio.create_task(j.jobs.cancel(job.id)) for _ in range(2)]
            await asyncio.sleep(0)  # both have begun

        assert [(await each).state for each in (submitted, *cancelled)] == ["cancelled"] * 3
        assert not j.worker.batches


async def test_a_job_that_cannot_be_created_is_unknown_to_those_who_cancel_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    creation = HeldCreation()
    async with jobs_of(tmp_path) as j:
        with creation.held(monkeypatch, fails=True):
            submitted = asyncio.create_task(j.submit("one"))
            job = await creation.listed(j.jobs, submitted)
            cancelled = asyncio.create_task(j.jobs.cancel(job.id))
            await asyncio.sleep(0)  # it has begun

        with pytest.raises(Unavailable):
            await submitted
        with pytest.raises(UnknownJob):
            await cancelled


async def test_a_name_has_one_fit_at_a_time(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as j:
        first = await j.submit("one")

        with pytest.raises(Conflict, match=first.id):
            await j.submit("one")
        with pytest.raises(Conflict, match=first.id):
            j.jobs.check_name("ONE", j.registry)

        await j.jobs.cancel(first.id)
        await j.submit("one")


async def test_a_new_fit_reads_the_files_of_all_jobs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder keeps a thousand of them, on a network file system."""
    reads: list[JobFolder] = []
    listed = JobFolder.list

    def counted(folder: JobFolder) -> list[Job]:
        reads.append(folder)
        return listed(folder)

    async with jobs_of(tmp_path) as j:
        monkeypatch.setattr(JobFolder, "list", counted)
        j.jobs.check_name("one", j.registry)
        await j.submit("one")
        monkeypatch.undo()

    assert len(reads) == 1


async def test_an_end_is_seen_on_every_server_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a load balancer a job that was `done` would run again."""
    write, is_reached, may_go_on = JobFolder.write, threading.Event(), threading.Event()

    def held_write(folder: JobFolder, job: Job) -> None:
        if job.has_ended:
            is_reached.set()
            assert may_go_on.wait(60)
        write(folder, job)

    monkeypatch.setattr(JobFolder, "write", held_write)
    async with jobs_of(tmp_path) as j, jobs_of(tmp_path) as other:
        job = await j.submit("one")
        j.worker.open()
        assert await asyncio.to_thread(is_reached.wait, 60)
        seen = [asyncio.create_task(j.jobs.get(job.id)), asyncio.create_task(j.ended(job))]
        listed = asyncio.create_task(j.jobs.list())
        try:
            assert not (await other.jobs.get(job.id)).has_ended
            assert not any(task.done() for task in (*seen, listed))
        finally:
            may_go_on.set()

        assert [(await task).state for task in seen] == ["done", "done"]
        assert [each.state for each in await listed] == ["done"]
        assert await other.jobs.get(job.id) == await j.jobs.get(job.id)


async def test_an_end_that_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    """Its file says that the job runs, and would refuse every further fit of the task."""
    async with jobs_of(tmp_path) as j, jobs_of(tmp_path) as other:
        first = await j.submit("one")
        while (await other.jobs.get(first.id)).state != "running":  # noqa: ASYNC110  # in a file
            await asyncio.sleep(0.001)
        (tmp_path / ".jobs").rename(tmp_path / "away")
        (tmp_path / ".jobs").touch()
        assert (await j.jobs.cancel(first.id)).state == "cancelled"
        (tmp_path / ".jobs").unlink()
        (tmp_path / "away").rename(tmp_path / ".jobs")
        assert (await other.jobs.get(first.id)).state == "running"

        second = await j.submit("one")

        assert (await other.jobs.get(first.id)).state == "cancelled"
        assert (await j.jobs.cancel(second.id)).state == "cancelled"


@pytest.mark.parametrize("attempt", range(5))
async def test_two_servers_do_not_queue_a_fit_of_one_name_in_the_same_instant(
    tmp_path: Path, attempt: int
) -> None:
    async with jobs_of(tmp_path) as one, jobs_of(tmp_path) as other:
        found = await asyncio.gather(one.submit("one"), other.submit("one"), return_exceptions=True)

        assert {type(each) for each in found} == {Conflict, Job}, found


async def test_a_stop_fails_the_jobs_that_have_not_ended(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as j:
        sent = [await j.submit("one"), await j.submit("two")]
        await j.runs(sent[0])

        await j.jobs.close()

        found = [await j.jobs.get(job.id) for job in sent]
        assert {(job.state, job.reason) for job in found} == {("failed", SERVER_STOPPED)}


async def test_vectors_over_the_limit_are_refused_and_nothing_is_kept(tmp_path: Path) -> None:
    async with jobs_of(tmp_path, Settings(max_job_bytes=100)) as j:
        with pytest.raises(TooLarge, match="ELMO_MAX_JOB_BYTES"):
            await j.submit("one")
        assert await j.jobs.list() == []


async def test_unknown_jobs_and_a_folder_that_is_not_known_yet(tmp_path: Path) -> None:
    jobs = FitJobs(SETTINGS, fit_host(tmp_path))
    with pytest.raises(Unavailable, match="the tasks are being read"):
        await jobs.list()

    await jobs.open(None)  # no task is kept, and no job either

    assert await jobs.list() == []
    with pytest.raises(UnknownJob):
        await jobs.get("0" * 16)
    with pytest.raises(UnknownJob):
        await jobs.cancel("0" * 16)
    await jobs.close()
