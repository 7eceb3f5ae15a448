"""A job of this server that has not ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from elmo_serve.jobs.fit_run import FitRun
from elmo_serve.jobs.job import Job
from elmo_serve.jobs.job_limits import JobSlot


@dataclass(slots=True, eq=False)
class ActiveJob:
    """A job that waits or runs on this server, and what it needs.

    `started_at` is on the monotonic clock. `ended` is set when the end of the job has been written,
    or could not be.
    """

    job: Job
    work: FitRun
    slot: JobSlot
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
