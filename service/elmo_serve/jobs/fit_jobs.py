"""The fits of a server: one runs, the others wait; their states lie in the task folder."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import secrets
import time
from collections import deque
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from elmo_model.errors import shown
from elmo_serve.errors import Conflict, ServiceError, TooLarge, Unavailable, UnknownJob
from elmo_serve.jobs.active_jobs import ActiveJob, JobSlots, Slot
from elmo_serve.jobs.bulk_queue import BulkQueue, WorkFailedError
from elmo_serve.jobs.cancel_requests import CancelRequests
from elmo_serve.jobs.plan import FitPlan
from elmo_serve.jobs.run import FitHost, FitRun
from elmo_serve.jobs.store import Job, JobFolder, State, refuse_duplicate
from elmo_serve.settings import Settings, variable
from elmo_serve.tasks.folder import in_folder_thread
from elmo_serve.tasks.registry import TaskRegistry

SERVER_STOPPED = "the server stopped before the job had ended"

_TIDY_SECONDS = 600.0
"""Seconds between two deletions of old jobs."""

_UNKNOWN_SECONDS, _LONGEST_SECONDS = 30.0, 600.0
"""Retry-After while nothing is known about the job that runs, and at most."""

_SAVED_STEP = 0.1
"""Progress after which the file is written again, for other servers: each write waits for the
disk."""

_log = logging.getLogger(__name__)


class FitJobs:
    """Queues, runs, cancels and remembers fits. All of it runs on the event loop."""

    def __init__(self, settings: Settings, host: FitHost) -> None:
        self.slots = JobSlots(settings, self._retry_after)
        self._most_bytes = settings.max_job_bytes
        self._keep_seconds = settings.job_keep_seconds
        self._metrics = host.metrics
        self._host = host
        self._folder: JobFolder | None = None
        self._cancel_requests: CancelRequests | None = None
        self._is_open = False
        self._active: dict[str, ActiveJob] = {}
        self._waiting: deque[ActiveJob] = deque()
        self._runner: asyncio.Task[None] | None = None
        self._tidying: asyncio.Task[None] | None = None
        self._saving: set[asyncio.Task[bool]] = set()

    async def open(self, tasks: Path | None) -> None:
        """Use a task folder; None: no task is kept, and no job either. A second call does nothing.

        Jobs of servers that have ended are failed from then on.
        """
        if self._is_open:
            return
        self._is_open = True
        if tasks is not None:
            self._folder = JobFolder(tasks)
            self._cancel_requests = CancelRequests(self._folder, self.cancel, self._active.keys)
            await in_folder_thread(self._folder.tidy, self._keep_seconds)
            self._tidying = asyncio.create_task(self._tidy(self._folder))

    async def close(self) -> None:
        """End every job: those that have not ended are failed."""
        if self._tidying is not None:
            self._tidying.cancel()
        if self._cancel_requests is not None:
            self._cancel_requests.close()
        waiting = list(self._waiting)
        self._waiting.clear()  # first: the next one would start when the one that runs has ended
        for active in waiting:
            await self._end(active, "failed", reason=SERVER_STOPPED)
        for active in list(self._active.values()):
            if active.running is not None:
                active.running.cancel()
                await active.ended.wait()
        await asyncio.gather(*self._saving, return_exceptions=True)
        await self._write_ends()
        if self._folder is not None:
            await in_folder_thread(self._folder.close)

    def check_name(self, name: str, registry: TaskRegistry) -> None:
        """Raise Conflict while a fit of this name waits or runs on this server.

        Also raises Conflict where no task of this name can be kept, Unavailable before the folder
        is known. Fits of other servers are found by `submit`, which reads the folder.
        """
        self._known_folder()
        registry.check_name(name)
        refuse_duplicate(name, [active.job for active in self._active.values()])

    async def submit(
        self, name: str, queue: BulkQueue, registry: TaskRegistry, plan: FitPlan, slot: Slot
    ) -> Job:
        """Queue a fit on the model of `queue`. `slot` counts it until it ends.

        Raises:
            TooLarge: its vectors take too much room.
            Conflict: a fit of this name waits or runs on any server of the folder.
            Conflict, Unavailable: the job cannot be kept; nothing was written.
        """
        self.check_name(name, registry)
        folder = self._known_folder()
        assert folder is not None, "a registry that keeps tasks has a folder"
        size = plan.row_offsets[-1] * queue.row_bytes
        if size > self._most_bytes:
            raise TooLarge(
                f"The vectors of the fit take {size} bytes and at most {self._most_bytes} are "
                f"allowed ({variable('max_job_bytes')}): send fewer examples."
            )
        await self._write_ends()
        job = Job(
            id=secrets.token_hex(8),
            name=name,
            model=queue.model,
            kind=plan.kind,
            owner=folder.owner,
            created_at=time.time(),
            examples=plan.examples,
            tokens=plan.tokens,
        )
        work = FitRun(job.id, name, queue, registry, plan, folder, self._host)
        active = ActiveJob(job, work, slot)
        self._active[job.id] = active
        try:
            await in_folder_thread(folder.create, job)
        except BaseException:
            del self._active[job.id]
            active.ended.set()
            raise
        if active.is_cancelled:  # a job can be found, and cancelled, as soon as its file is there
            await self._end(active, "cancelled")
            return active.job
        self._waiting.append(active)
        self._count()
        if self._cancel_requests is not None:
            self._cancel_requests.watch()
        if self._runner is None or self._runner.done():
            # In a context of its own: the log lines of a job belong to no request.
            self._runner = asyncio.create_task(self._run(), context=contextvars.Context())
        return active.job

    async def get(self, job_id: str) -> Job:
        """Return a job, of whichever server. Raises UnknownJob.

        An end is returned once its file is written, so that no server says "running" after it.
        """
        if (active := self._active.get(job_id)) is not None:
            return await active.seen()
        folder = self._known_folder()
        job = None if folder is None else await in_folder_thread(folder.read, job_id)
        if job is None:
            raise UnknownJob(f"No job {shown(job_id)}; ended jobs are kept for a time.")
        return job

    async def list(self) -> list[Job]:
        """Return all jobs, the newest first."""
        folder = self._known_folder()
        found = [] if folder is None else await in_folder_thread(folder.list)
        active = self._active.copy()
        return [await active[job.id].seen() if job.id in active else job for job in found]

    async def cancel(self, job_id: str) -> Job:
        """Cancel a job that waits or runs; return it as it is then. An ended one is left alone.

        A job of another server is cancelled there.

        Raises UnknownJob; Unavailable where the other server does not answer.
        """
        active = self._active.get(job_id)
        if active is None:
            job = await self.get(job_id)
            if job.has_ended or self._cancel_requests is None:
                return job
            return await self._cancel_requests.ask(job)
        active.is_cancelled = True
        if active.running is not None:
            active.running.cancel()
            await active.ended.wait()
        elif active in self._waiting:
            self._waiting.remove(active)
            await self._end(active, "cancelled")
        else:  # it is being created, or somebody else has cancelled it
            await active.ended.wait()
        return active.job if active.job.has_ended else await self.get(job_id)

    async def head(self, job_id: str) -> bytes:
        """Return the head of a job that is done. Raises UnknownJob, and Conflict before that."""
        job = await self.get(job_id)
        if job.state != "done" or self._folder is None:
            raise Conflict(f"Job {job_id} is {job.state}; a job has a head when it is done.")
        try:
            return await in_folder_thread(self._folder.head, job_id)
        except FileNotFoundError:
            raise UnknownJob(f"The head of job {job_id} is no longer kept.") from None

    async def _run(self) -> None:
        while self._waiting:
            active = self._waiting.popleft()
            active.running = asyncio.create_task(active.work.run(partial(self._note, active)))
            active.started_at = time.monotonic()
            active.job = replace(active.job, state="running")
            self._count()
            self._save(active)
            await self._finish(active)

    async def _finish(self, active: ActiveJob) -> None:
        """Wait for the end of a job that runs, whichever it is."""
        assert active.running is not None
        await asyncio.wait((active.running,))
        if active.running.cancelled():
            if active.is_cancelled:
                await self._end(active, "cancelled")
            else:
                await self._end(active, "failed", reason=SERVER_STOPPED)
            return
        match active.running.exception():
            case None:
                await self._end(active, "done", task=active.running.result(), progress=1.0)
            case WorkFailedError() as error:
                await self._end(active, "failed", reason=str(error))
            case ServiceError() as error:
                await self._end(active, "failed", reason=error.detail)
            case OSError() as error:
                await self._end(active, "failed", reason=error.strerror or type(error).__name__)
            case error:  # a fault of this program must not stop the jobs that wait
                _log.error("unexpected error in a job", exc_info=error)
                await self._end(active, "failed", reason="an error inside the server; see its log")

    async def _end(self, active: ActiveJob, state: State, **changes: Any) -> None:
        changes.setdefault("scores", active.work.scores)
        active.job = replace(active.job, state=state, ended_at=time.time(), **changes)
        active.slot.close()
        self._metrics.jobs_ended.labels(state).inc()
        _log.info(
            "job ended",
            extra={"job": active.job.id, "task": active.job.name, "state": state}
            | ({"reason": active.job.reason} if active.job.reason else {}),
        )
        try:
            if await self._written(active):
                del self._active[active.job.id]
            self._count()
        finally:
            active.ended.set()

    def _note(self, active: ActiveJob) -> None:
        """Take over the progress and the scores of a job that runs."""
        work = active.work
        has_scores = len(work.scores.get("mixtures", ())) != len(
            active.job.scores.get("mixtures", ())
        )
        active.job = replace(active.job, progress=work.progress, scores=work.scores)
        if has_scores or work.progress - active.saved_progress >= _SAVED_STEP:
            self._save(active)

    def _save(self, active: ActiveJob) -> None:
        active.saved_progress = active.job.progress
        task = asyncio.create_task(self._written(active))
        self._saving.add(task)
        task.add_done_callback(self._saving.discard)

    async def _written(self, active: ActiveJob) -> bool:
        """Write the file of a job as it is now; return whether that was possible."""
        assert self._folder is not None
        async with active.writing:
            try:
                await in_folder_thread(self._folder.write, active.job)
            except ServiceError:  # it is in the log; the job itself goes on
                return False
        return True

    async def _write_ends(self) -> None:
        """Write the ends of jobs that could not be written when they came.

        The file of such a job says that it runs, which refuses every further fit of its task.
        """
        for active in list(self._active.values()):
            if active.ended.is_set() and await self._written(active):
                self._active.pop(active.job.id, None)

    async def _tidy(self, folder: JobFolder) -> None:
        while True:
            await asyncio.sleep(_TIDY_SECONDS)
            await self._write_ends()
            await in_folder_thread(folder.tidy, self._keep_seconds)

    def _known_folder(self) -> JobFolder | None:
        if not self._is_open:
            raise Unavailable("Not ready: the tasks are being read.", retry_after=1)
        return self._folder

    def _count(self) -> None:
        states = [active.job.state for active in self._active.values()]
        for state in ("queued", "running"):
            self._metrics.jobs.labels(state).set(states.count(state))

    def _retry_after(self) -> float:
        """Return the seconds until the job that runs has ended, by its progress so far."""
        for active in self._active.values():
            progress = active.job.progress
            if active.started_at is not None and progress > 0.05:
                seconds = (time.monotonic() - active.started_at) * (1 - progress) / progress
                return min(max(seconds, 1.0), _LONGEST_SECONDS)
        return _UNKNOWN_SECONDS
