"""The fits of this server that have not ended: how many there may be, and what each needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from elmo_serve.errors import ClientOverShare, Overloaded
from elmo_serve.jobs.run import FitRun
from elmo_serve.jobs.store import Job
from elmo_serve.scheduling.quotas import Budget, ClientQuotas
from elmo_serve.settings import Settings, variable

Slot = ExitStack
"""The place of one job among all of them; it is given back when the stack is closed."""


class JobSlots:
    """Counts the jobs that wait or run, and those whose bodies are being read."""

    def __init__(self, settings: Settings, retry_after: Callable[[], float]) -> None:
        """`retry_after` estimates the seconds until a job ends."""
        self._all = Budget(settings.max_jobs)
        self._clients = ClientQuotas(settings.max_client_jobs)
        self._retry_after = retry_after

    @contextmanager
    def taking(self, client: str) -> Iterator[Slot]:
        """Count a job of a client, and no longer if the block fails.

        Raises:
            ClientOverShare: the client has as many as it may have.
            Overloaded: all clients together have as many.
        """
        if self._all.excess(1):
            raise Overloaded(
                f"{self._all.used} fits wait or run, which is the limit ({variable('max_jobs')}).",
                retry_after=self._retry_after(),
            )
        if self._clients.excess(client, 1):
            raise ClientOverShare(
                f"{self._clients.used(client)} fits of this client wait or run, which is the limit "
                f"({variable('max_client_jobs')}).",
                retry_after=self._retry_after(),
            )
        slot = Slot()
        slot.callback(self._all.hold(1).release)
        slot.callback(self._clients.hold(client, 1).release)
        try:
            yield slot
        except BaseException:
            slot.close()
            raise


@dataclass(slots=True, eq=False)
class ActiveJob:
    """A job that waits or runs on this server, and what it needs.

    `started_at` is on the monotonic clock. `ended` is set when the end of the job has been written,
    or could not be.
    """

    job: Job
    work: FitRun
    slot: Slot
    started_at: float | None = None
    running: asyncio.Task[Mapping[str, Any]] | None = None
    is_cancelled: bool = False
    saved_progress: float = 0.0
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def seen(self) -> Job:
        """Return the job as every server sees it: an end when it has been written."""
        if self.job.has_ended:
            await self.ended.wait()
        return self.job
