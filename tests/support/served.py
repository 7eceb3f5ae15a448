"""The application in the process of the test: no server, no model and no child process of a fit.

async with served(tasks=tmp_path / "tasks") as s:
    job = await s.fit("ner")
    s.worker.open()
    assert (await s.ended(job))["state"] == "done"
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from elmo_serve.http.app import create_app
from elmo_serve.http.state import Server
from elmo_serve.http.wiring import assemble
from elmo_serve.jobs.fit_body import read_fit
from elmo_serve.jobs.fit_parser import FitParser
from elmo_serve.jobs.fit_plan import FitPlan, FitSource
from elmo_serve.jobs.scratch_files import ScratchFiles
from elmo_serve.metrics import Metrics
from elmo_serve.settings import Settings
from elmo_serve.workers.devices import Hardware
from elmo_serve.workers.messages import RunnerSettings
from elmo_serve.workers.shared_memory import SharedMemoryPool
from tests.support.fit_tasks import FitHere
from tests.support.fits import ENDED, body
from tests.support.gated_worker import GatedWorker
from tests.support.servers import SMALL

_PATIENCE_SECONDS = 120  # for what needs some milliseconds


@dataclass
class Served:
    """An application, a client of it, and the processes that it would have.

    Each process of a fit dies with the next one of `deaths`.
    """

    is_open: bool
    deaths: list[str] = field(default_factory=list)
    workers: list[GatedWorker] = field(default_factory=list)
    fits: list[FitHere] = field(default_factory=list)
    server: Server = field(init=False)
    client: httpx.AsyncClient = field(init=False)

    @property
    def worker(self) -> GatedWorker:
        """The newest worker."""
        return self.workers[-1]

    def make_worker(self, _settings: RunnerSettings, _segments: SharedMemoryPool) -> GatedWorker:
        """Make a worker for the application."""
        self.workers.append(GatedWorker(is_open=self.is_open))
        return self.worker

    def spawn_fit(self, files: ScratchFiles) -> FitHere:
        """Make the process of a fit for the application."""
        self.fits.append(FitHere(files, self.deaths))
        return self.fits[-1]

    async def get(self, path: str) -> Any:
        """Return the JSON of a response, also of an error."""
        return (await self.client.get(path)).json()

    async def fit(self, name: str, **options: Any) -> str:
        """Queue a fit and return the id of its job."""
        response = await self.client.post(f"/tasks/{name}/fit", json=body(**options))
        assert response.status_code == 202, response.text
        found: str = response.json()["id"]
        assert response.headers["location"] == f"/jobs/{found}"
        return found

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


class _BodiesHere(FitParser):
    """Parses bodies of fits on the event loop."""

    def __init__(self) -> None:
        super().__init__(SharedMemoryPool(), Metrics())

    async def parse(self, body: bytes, source: FitSource) -> FitPlan:
        return read_fit(body, source).plan()


@asynccontextmanager
async def served(
    *, is_open: bool = True, has_model: bool = False, **settings: Any
) -> AsyncIterator[Served]:
    """Run an application until the block ends.

    Its workers compute nothing while `is_open` is false. With `has_model` it has the golden model,
    in a thread.
    """
    found = Served(is_open)
    kind = {"worker": "thread"} if has_model else {}
    given = Settings.model_validate(
        {"model": str(SMALL), "devices": ("cpu",), "json_workers": 1, **kind, **settings}
    )
    found.server = assemble(
        given,
        None if has_model else found.make_worker,
        hardware=Hardware(0, "-1"),
        spawn_fit=found.spawn_fit,
    )
    found.server.fit_parser = _BodiesHere()
    app = create_app(found.server)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://test") as client,
    ):
        found.client = client
        await found.until(lambda: all(model.state != "loading" for model in found.server.models))
        yield found
