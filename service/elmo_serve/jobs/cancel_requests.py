"""Cancellations of jobs that run on another server of the task folder.

The server that a client asks leaves a request in the job folder, and the owner of the job finds it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from elmo_serve.errors import ServiceError, Unavailable, UnknownJob
from elmo_serve.jobs.store import Job, JobFolder
from elmo_serve.tasks.folder import in_folder_thread

POLL_SECONDS: Final = 0.5
"""Seconds between two looks into the folder; each costs a `stat` for every job of the server."""

WAIT_SECONDS: Final = 5.0
"""Seconds for which a client waits for the owner; the fit's process takes less than one to end."""


@dataclass(slots=True, eq=False)
class CancelRequests:
    """Asks other servers to cancel their jobs, and cancels those that others ask for.

    `cancel` ends a job of this server, `active` returns the ids of those that have not ended. It
    looks into the folder every `poll_seconds`, and waits `wait_seconds` for another server.
    """

    folder: JobFolder
    cancel: Callable[[str], Awaitable[object]]
    active: Callable[[], Collection[str]]
    poll_seconds: float = POLL_SECONDS
    wait_seconds: float = WAIT_SECONDS
    watching: asyncio.Task[None] | None = field(default=None, init=False)

    async def ask(self, job: Job) -> Job:
        """Let the owner of a job cancel it; return the job as it has ended.

        Raises:
            Unavailable: the owner has not answered in time; it finds the request when it can.
            Conflict, Unavailable: the request cannot be written.
            UnknownJob: the job is no longer kept.
        """
        await in_folder_thread(self.folder.ask_to_cancel, job.id)
        for _ in range(round(self.wait_seconds / self.poll_seconds)):
            await asyncio.sleep(self.poll_seconds)
            found = await in_folder_thread(self.folder.read, job.id)
            if found is None:
                raise UnknownJob(f"Job {job.id} is no longer kept.")
            if found.has_ended:
                return found
        raise Unavailable(
            f"Job {job.id} is {job.state} on another server of the task folder, which has not "
            "answered yet; the job is cancelled when it does.",
            retry_after=self.wait_seconds,
        )

    def watch(self) -> None:
        """Look for requests of other servers while a job of this one has not ended."""
        if self.watching is None or self.watching.done():
            self.watching = asyncio.create_task(self._watch())

    def close(self) -> None:
        """End the watch."""
        if self.watching is not None:
            self.watching.cancel()

    async def _watch(self) -> None:
        while active := tuple(self.active()):
            await asyncio.sleep(self.poll_seconds)
            for job_id in await in_folder_thread(self.folder.asked_to_cancel, active):
                with suppress(ServiceError):  # it has ended, and is no longer kept
                    await self.cancel(job_id)
