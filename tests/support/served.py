"""Fits of an application in the process of a test: no server, and no child process.

async with served(tasks=tmp_path / "tasks", is_open=False) as s:
    job = await s.fit("ner")
    s.worker.open()
    assert (await s.ended(job))["state"] == "done"
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from elmo_serve.http.state import Server
from elmo_serve.jobs.child import ScratchFile
from tests.support.fit_tasks import FitHere
from tests.support.fits import ENDED, body, queued
from tests.support.gated_worker import GatedWorker
from tests.support.in_process import in_process

_PATIENCE_SECONDS = 120  # for what needs some milliseconds


@dataclass(frozen=True, slots=True)
class Served:
    """A server that is ready, its only worker, a client, and the processes of its fits.

    Each of these dies with the next one of `deaths`.
    """

    server: Server
    worker: GatedWorker
    client: httpx.AsyncClient
    fits: list[FitHere]
    deaths: list[str]

    async def get(self, path: str) -> Any:
        """Return the JSON of a response, also of an error."""
        return (await self.client.get(path)).json()

    async def fit(self, name: str, **options: Any) -> str:
        """Queue a fit and return the id of its job."""
        return queued(await self.client.post(f"/tasks/{name}/fit", json=body(**options)))

    async def runs(self, job_id: str) -> None:
        """Wait until a job runs, and its first piece is computed."""
        await self.until(lambda: bool(self.worker.batches))
        assert (await self.get(f"/jobs/{job_id}"))["state"] == "running"

    async def ended(self, job_id: str) -> dict[str, Any]:
        """Wait until a job has ended, and return it."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while (job := await self.get(f"/jobs/{job_id}"))["state"] not in ENDED:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        assert isinstance(job, dict)
        return job

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a state that stays once it is reached."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    def metric(self, name: str, **labels: str) -> float:
        """Return one number of the metrics by its sample name; 0 when there is none."""
        return self.server.metrics.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def served(
    *, is_open: bool = True, has_model: bool = False, **settings: Any
) -> AsyncIterator[Served]:
    """Run an application until the block ends; see `in_process`."""
    fits: list[FitHere] = []
    deaths: list[str] = []

    def spawn(file: ScratchFile) -> FitHere:
        fits.append(FitHere(file, deaths))
        return fits[-1]

    async with in_process(
        is_open=is_open, has_model=has_model, spawn_fit=spawn, **settings
    ) as serving:
        yield Served(serving.server, serving.worker, serving.client, fits, deaths)
