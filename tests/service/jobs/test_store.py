"""Jobs as files, which servers of one folder share."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from elmo_serve.errors import Conflict, Unavailable
from elmo_serve.jobs.store import (
    ENDED,
    MOST_KEPT,
    SERVER_ENDED,
    Job,
    JobFolder,
    State,
    decode,
    encode,
    refuse_duplicate,
)
from tests.support.clock import FakeClock


def job_of(folder: JobFolder, number: int = 0, **changes: object) -> Job:
    job = Job(f"{number:016x}", "ner", "english", "token", folder.owner, time.time() + number)
    return replace(job, **changes)  # type: ignore[arg-type]


@pytest.fixture
def open_folder(tmp_path: Path) -> Iterator[Callable[[], JobFolder]]:
    """Make folders as servers do that share one; they are closed in the end."""
    with ExitStack() as stack:

        def make() -> JobFolder:
            folder = JobFolder(tmp_path)
            stack.callback(folder.close)
            return folder

        yield make


def test_other_servers_read_a_job_while_its_owner_lives(
    tmp_path: Path, open_folder: Callable[[], JobFolder]
) -> None:
    own, other = open_folder(), open_folder()
    assert other.list() == [] and other.read("0" * 16) is None
    job = job_of(own)
    own.write(job)

    assert own.read(job.id) == other.read(job.id) == job
    other.tidy(0)
    assert other.read(job.id) == job

    own.close()

    failed = other.read(job.id)
    assert failed is not None
    assert (failed.state, failed.reason) == ("failed", SERVER_ENDED)
    assert other.read(job.id) == failed, "it is written"


def test_a_job_that_ends_with_its_server_while_it_is_read_stays_done(
    tmp_path: Path, open_folder: Callable[[], JobFolder]
) -> None:
    """The owner ends between the look at the file and the look at its lock."""
    own, other = open_folder(), open_folder()
    job = job_of(own, state="running")
    done = replace(job, state="done")
    own.write(job)
    path = tmp_path / ".jobs" / f"{job.id}.json"
    before = path.read_bytes()
    path.unlink()
    os.mkfifo(path)

    def end() -> None:
        with path.open("wb") as pipe:  # the reader has opened it, and waits for its content
            own.write(done)
            own.artefacts(job.id).mkdir()
            own.close()
            pipe.write(before)

    with ThreadPoolExecutor() as threads:
        ended = threads.submit(end)
        assert other.read(job.id) == done
        ended.result()
    assert own.artefacts(job.id).is_dir()


def test_a_file_that_cannot_be_read_is_no_job_that_is_gone(
    tmp_path: Path, open_folder: Callable[[], JobFolder]
) -> None:
    """A client that is told 404 stops asking; an error of the disk may be over soon."""
    folder = open_folder()
    folder.write(job_of(folder, 1, state="done"))
    (tmp_path / ".jobs" / f"{2:016x}.json").mkdir()
    (folder.artefacts(f"{1:016x}") / "head.safetensors").mkdir(parents=True)

    with pytest.raises(Unavailable, match="The job folder cannot be read"):
        folder.read(f"{2:016x}")
    with pytest.raises(Unavailable, match="The job folder cannot be read"):
        folder.head(f"{1:016x}")
    assert [job.id for job in folder.list()] == [f"{1:016x}"]


def test_a_server_that_is_stopped_while_it_creates_a_job_keeps_no_other_one_waiting(
    tmp_path: Path, open_folder: Callable[[], JobFolder]
) -> None:
    own, other = open_folder(), JobFolder(tmp_path, creation_seconds=0)
    own.create(job_of(own))
    with (tmp_path / ".jobs" / ".creation").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(Unavailable, match=r"has locked .*\.creation"):
            other.create(replace(job_of(other, 1), name="pos"))

    other.create(replace(job_of(other, 1), name="pos"))
    assert len(own.list()) == 2
    other.close()


def test_a_killed_process_loses_its_lock(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, signal\n"
        "from elmo_serve.jobs.store import Job, JobFolder\n"
        f"folder = JobFolder(pathlib.Path({str(tmp_path)!r}))\n"
        "job = Job('f' * 16, 'ner', 'english', 'token', folder.owner, 0.0, state='running')\n"
        "folder.write(job)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    (tmp_path / ".jobs" / ("f" * 16)).mkdir()  # the head and the report of an unfinished fit

    job = JobFolder(tmp_path).read("f" * 16)

    assert job is not None and job.reason == SERVER_ENDED
    assert not (tmp_path / ".jobs" / ("f" * 16)).exists()


def test_jobs_are_listed_the_newest_first_without_foreign_files(
    tmp_path: Path, open_folder: Callable[[], JobFolder]
) -> None:
    folder = open_folder()
    for number in (1, 3, 2):
        folder.write(job_of(folder, number))
    (tmp_path / ".jobs" / ("a" * 16 + ".json")).write_text("{")
    (tmp_path / ".jobs" / "notes.json").write_text("{}")

    assert [int(job.id, 16) for job in folder.list()] == [3, 2, 1]
    assert folder.read("../" + "1" * 13) is None


def test_old_jobs_go_with_their_heads_and_locks_of_ended_servers(
    tmp_path: Path, open_folder: Callable[[], JobFolder]
) -> None:
    folder, gone = open_folder(), open_folder()
    old = job_of(folder, 1, state="done", ended_at=time.time() - 100)
    young = job_of(folder, 2, state="done", ended_at=time.time() + 1_000)
    runs = job_of(folder, 3, state="running", created_at=0.0)
    for job in (old, young, runs):
        folder.write(job)
        folder.artefacts(job.id).mkdir()
    gone.write(job_of(gone, 4, state="done", ended_at=time.time() + 1_000))
    lock = tmp_path / ".jobs" / f"{gone.owner}.lock"
    assert lock.exists()
    folder.tidy(50)
    assert lock.exists()
    gone.close()
    lock.touch()  # as after a kill

    folder.tidy(50)

    assert {job.id for job in folder.list()} == {f"{number:016x}" for number in (2, 3, 4)}
    assert not folder.artefacts(old.id).exists() and folder.artefacts(young.id).exists()
    assert not lock.exists()


@pytest.mark.parametrize("jump", [-86_400, 86_400])
def test_a_jump_of_the_wall_clock_deletes_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    monotonic, right = FakeClock(), time.time()
    with closing(JobFolder(tmp_path, clock=monotonic.now)) as folder:
        folder.write(job_of(folder, 1, state="done", ended_at=right - 10))
        folder.tidy(50)

        monkeypatch.setattr(time, "time", lambda: right + jump)
        folder.write(job_of(folder, 2, state="done", ended_at=right + jump))
        folder.tidy(50)
        monkeypatch.setattr(time, "time", lambda: right)
        folder.tidy(50)
        assert len(folder.list()) == 2

        for seconds, left in ((41, 1), (10, 0)):  # 51 s after the end of each
            monotonic.advance(seconds)
            folder.tidy(50)
            assert len(folder.list()) == left


def test_so_many_ended_jobs_are_kept(tmp_path: Path, open_folder: Callable[[], JobFolder]) -> None:
    folder = open_folder()
    folder.write(job_of(folder, 0, state="running"))
    for number in range(1, MOST_KEPT + 3):
        path = tmp_path / ".jobs" / f"{number:016x}.json"
        text = (tmp_path / ".jobs" / f"{0:016x}.json").read_text()
        text = text.replace(f"{0:016x}", f"{number:016x}").replace("running", "failed")
        path.write_text(text)

    folder.tidy(1_000)

    assert len(folder.list()) == MOST_KEPT + 1


def test_a_task_folder_that_is_gone_is_named_by_its_setting(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "gone")

    with pytest.raises(Conflict, match=r"the task folder \(ELMO_TASKS\) is missing"):
        folder.create(job_of(folder))


def test_a_folder_that_cannot_be_written_is_an_error(
    tmp_path: Path, open_folder: Callable[[], JobFolder]
) -> None:
    (tmp_path / ".jobs").write_text("in the way")
    folder = open_folder()

    with pytest.raises(Unavailable, match="cannot be written"):
        folder.write(job_of(folder))
    assert folder.list() == []


JOB = Job("0123456789abcdef", "ner", "english", "token", "owner", 1.5, examples=3, tokens=4)


@pytest.mark.parametrize(
    "job",
    [
        JOB,
        replace(JOB, state="failed", reason="Grüße", ended_at=2.5, progress=0.25),
        replace(JOB, state="done", task={"weights": [0.1, 1e-45]}, scores={"mixtures": {}}),
    ],
)
def test_a_job_is_read_back(job: Job) -> None:
    assert decode(encode(job)) == job


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        encode(JOB).replace(b'"format": 1', b'"format": 2'),
        encode(JOB).replace(b'"owner"', b'"master"'),
        encode(JOB).replace(b"0123456789abcdef", b"../../etc/passwd"),
    ],
)
def test_anything_else_is_no_job(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"it is no job|its id|its format|Expecting"):
        decode(data)


def test_only_the_last_states_have_ended() -> None:
    assert not JOB.has_ended
    assert replace(JOB, state="cancelled").has_ended


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_job_that_has_not_ended_refuses_another_of_its_task(state: State) -> None:
    with pytest.raises(Conflict, match=f"{JOB.id} fits task 'ner' already; it is {state}"):
        refuse_duplicate("ner", [replace(JOB, name="pos"), replace(JOB, state=state)])


def test_a_job_whose_task_differs_in_case_alone_is_one_of_its_task() -> None:
    """The registry refuses such a task, so that the second fit would be computed for nothing."""
    with pytest.raises(Conflict, match=f"{JOB.id} fits task 'ner' already"):
        refuse_duplicate("NER", [JOB])


def test_ended_jobs_and_jobs_of_other_tasks_are_no_reason() -> None:
    refuse_duplicate("ner", [replace(JOB, state=state) for state in ENDED])
    refuse_duplicate("ner", [replace(JOB, name="pos")])
