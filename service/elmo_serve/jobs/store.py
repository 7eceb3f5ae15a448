"""Jobs as values, and as files in `.jobs` of the task folder, shared by all servers of it."""

import fcntl
import json
import logging
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final, Literal

from elmo_model.files import atomic as atomic_files
from elmo_model.files.locks import SECONDS, lock_now, locked_file
from elmo_serve.errors import Conflict, Unavailable
from elmo_serve.tasks.registry import unwritable

State = Literal["queued", "running", "done", "failed", "cancelled"]

ENDED: Final[tuple[State, ...]] = ("done", "failed", "cancelled")

JOB_ID: Final = re.compile(r"[0-9a-f]{16}")

_FORMAT: Final = 1
"""Of a job file; a file of a later format is not read."""

FOLDER: Final = ".jobs"

HEAD: Final = "head.safetensors"

MOST_KEPT: Final = 1_000
"""Ended jobs that are kept: a list of all reads each file."""

SERVER_ENDED: Final = "the server that ran the job ended"
"""Reason of jobs whose server is gone."""

_SUFFIX: Final = ".json"
_LOCK: Final = ".lock"
_CANCEL: Final = ".cancel"
_CREATION: Final = ".creation"
"""Locked while a server looks for a job of the same name and writes the new one."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """A fit of the task `name`, as clients see it.

    `progress` goes from 0 to 1. `scores` grows while the job runs. `task` is there when it is done,
    `reason` when it failed. `owner` is the server that runs it. Times are seconds since the epoch.
    """

    id: str
    name: str
    model: str
    kind: str
    owner: str
    created_at: float
    examples: int = 0
    tokens: int = 0
    state: State = "queued"
    progress: float = 0.0
    scores: Mapping[str, Any] = field(default_factory=dict)
    task: Mapping[str, Any] | None = None
    reason: str | None = None
    ended_at: float | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing about the job will change."""
        return self.state in ENDED


class JobFolder:
    """The files of all jobs, and the lock by which others know that this server lives.

    A job file names its owner. The owner holds a lock on `OWNER.lock`, which the kernel releases
    when its process ends, however it ends. A job that has not ended, and whose owner holds no lock,
    has failed. All methods use the disk and belong in a thread.
    """

    def __init__(
        self,
        tasks: Path,
        creation_seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Use the task folder `tasks`; nothing is written before the first `write`.

        Another server that creates a job is waited for; see `locked_file`.
        """
        self.owner = secrets.token_hex(8)
        self._folder = tasks / FOLDER
        self._lock: IO[bytes] | None = None
        self._guard = threading.Lock()
        self._creation_seconds = creation_seconds
        self._clock = clock
        self._ended_at: dict[str, float] | None = None  # of the clock, by job; None: not tidied yet

    def write(self, job: Job) -> None:
        """Write the file of a job. Raises Conflict or Unavailable where that cannot be done."""
        with self._guard:
            try:
                self._be_owner()
                atomic_files.write_bytes(self._folder / (job.id + _SUFFIX), encode(job))
            except OSError as error:
                raise unwritable(self._folder, error) from error
        if job.has_ended:
            self._forget_request(job.id)

    def create(self, job: Job) -> None:
        """Write the file of a new job, unless a fit of its task has not ended, on any server.

        Raises Conflict where there is one; Conflict or Unavailable as `write`.
        """
        try:
            with self._guard:
                self._be_owner()
            with locked_file(self._folder / _CREATION, self._creation_seconds):
                refuse_duplicate(job.name, self.list())
                self.write(job)
        except OSError as error:
            raise unwritable(self._folder, error) from error

    def ask_to_cancel(self, job_id: str) -> None:
        """Leave a request for the owner of a job; raises Conflict or Unavailable as `write`."""
        path = self._folder / (job_id + _CANCEL)
        try:
            path.touch()
        except OSError as error:
            raise unwritable(path, error) from error

    def asked_to_cancel(self, job_ids: Iterable[str]) -> Sequence[str]:
        """Return those of the jobs whose cancellation another server has asked for."""
        return [job_id for job_id in job_ids if (self._folder / (job_id + _CANCEL)).exists()]

    def read(self, job_id: str) -> Job | None:
        """Return a job, of whichever server; None if there is none, or its file is damaged.

        Raises Unavailable where the file cannot be read at present.
        """
        if not JOB_ID.fullmatch(job_id):
            return None
        path = self._folder / (job_id + _SUFFIX)
        job = _decoded(path)
        if job is None or job.has_ended or job.owner == self.owner or self._lives(job.owner):
            return job
        # The owner may have ended the job, and then itself, since the file was read.
        job = _decoded(path)
        return job if job is None or job.has_ended else self._ended(path, job)

    def list(self) -> list[Job]:
        """Return all jobs, the newest first, without those whose file cannot be read."""
        found = []
        with suppress(OSError):  # of a folder that cannot be read
            for path in self._folder.glob(f"*{_SUFFIX}"):
                with suppress(Unavailable):  # it is in the log
                    found.append(self.read(path.stem))
        return sorted(filter(None, found), key=lambda job: job.created_at, reverse=True)

    def head(self, job_id: str) -> bytes:
        """Return the head of a job that is done. Raises FileNotFoundError, and as `read`."""
        return _content(self.artefacts(job_id) / HEAD)

    def artefacts(self, job_id: str) -> Path:
        """Return the folder of a job's head and report, which may not exist."""
        return self._folder / job_id

    def tidy(self, keep_seconds: float) -> None:
        """Delete what is no longer kept: old jobs, and the locks and leftovers of ended servers.

        The wall clock may jump. It is used for the first call alone, at the start of a server; a
        job that a later call finds has ended since the call before.
        """
        ended = [job for job in self.list() if job.has_ended]
        now, wall = self._clock(), time.time()
        if self._ended_at is None:
            self._ended_at = {job.id: now - (wall - (job.ended_at or wall)) for job in ended}
        self._ended_at = {job.id: self._ended_at.get(job.id, now) for job in ended}
        for number, job in enumerate(ended):
            if number >= MOST_KEPT or now - self._ended_at[job.id] > keep_seconds:
                shutil.rmtree(self.artefacts(job.id), ignore_errors=True)
                with suppress(OSError):
                    atomic_files.remove(self._folder / (job.id + _SUFFIX))
        with suppress(OSError):
            for path in self._folder.glob(f"*{_CANCEL}"):
                if not path.with_suffix(_SUFFIX).exists():
                    path.unlink(missing_ok=True)
            for path in self._folder.glob(f"*{_LOCK}"):
                if path.stem != self.owner and not self._lives(path.stem):
                    path.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the lock."""
        with self._guard:
            if self._lock is not None:
                with suppress(OSError):
                    (self._folder / (self.owner + _LOCK)).unlink(missing_ok=True)
                self._lock.close()
                self._lock = None

    def _be_owner(self) -> None:
        """Make the folder, and take the lock of this server."""
        if self._lock is not None:
            return
        self._folder.mkdir(exist_ok=True)
        path = self._folder / (self.owner + _LOCK)
        # It gets its name when it is locked: `tidy` of another server deletes unlocked ones.
        hidden = path.with_name(f".{self.owner}")
        lock = hidden.open("wb")
        try:
            lock_now(lock)
            hidden.rename(path)
        except OSError:
            lock.close()
            raise
        self._lock = lock

    def _lives(self, owner: str) -> bool:
        """Tell whether a server holds its lock; True as well where the folder knows no locks."""
        try:
            with (self._folder / (owner + _LOCK)).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def _ended(self, path: Path, job: Job) -> Job:
        """Return a job as failed because its owner has ended; write that, if it can be written."""
        job = replace(job, state="failed", reason=SERVER_ENDED, ended_at=time.time())
        shutil.rmtree(self.artefacts(job.id), ignore_errors=True)
        with suppress(OSError):
            atomic_files.write_bytes(path, encode(job))
        self._forget_request(job.id)
        return job

    def _forget_request(self, job_id: str) -> None:
        with suppress(OSError):
            (self._folder / (job_id + _CANCEL)).unlink(missing_ok=True)


def _decoded(path: Path) -> Job | None:
    """Return the job of a file; None if there is none, or it is damaged, which is logged."""
    try:
        return decode(_content(path))
    except FileNotFoundError:
        return None
    except ValueError as error:
        _log.warning("Job file %s is left out: %s", path, error)
        return None


def _content(path: Path) -> bytes:
    """Read a file. Raises FileNotFoundError, and Unavailable where the disk fails."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        _log.error("The job folder cannot be read: %s", error)
        raise Unavailable("The job folder cannot be read", retry_after=5) from error


def encode(job: Job) -> bytes:
    """Return the content of the job's file."""
    return json.dumps({"format": _FORMAT, **asdict(job)}, indent=2).encode() + b"\n"


def decode(data: bytes) -> Job:
    """Read a job's file. Raises ValueError where it is none."""
    try:
        members = json.loads(data)
        if members.pop("format") != _FORMAT:
            raise ValueError("its format is not known")
        job = Job(**members)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"it is no job: {error}") from error
    if not isinstance(job.id, str) or not JOB_ID.fullmatch(job.id):
        raise ValueError("its id is none")
    return job


def refuse_duplicate(name: str, jobs: Iterable[Job]) -> None:
    """Raise Conflict where one of the jobs fits a task of this name and has not ended.

    Names that differ in case alone are one: the task registry keeps only one of them.
    """
    for job in jobs:
        if job.name.casefold() == name.casefold() and not job.has_ended:
            raise Conflict(
                f"Job {job.id} fits task {job.name!r} already; it is {job.state}. "
                f"DELETE /jobs/{job.id} cancels it."
            )
