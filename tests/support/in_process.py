"""The application in the process of a test, over a gated worker and without child processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import orjson
from fastapi import FastAPI

from elmo_serve.http.app import create_app
from elmo_serve.http.media_types.encoder import Chunk
from elmo_serve.http.state import Server
from elmo_serve.http.wiring import assemble
from elmo_serve.jobs.fit_body import read_fit
from elmo_serve.jobs.fit_child import SpawnFit
from elmo_serve.jobs.fit_parser import FitParser
from elmo_serve.jobs.fit_plan import FitPlan, FitSource
from elmo_serve.metrics import Metrics
from elmo_serve.settings import Settings
from elmo_serve.workers import text_worker
from elmo_serve.workers.devices import Hardware
from elmo_serve.workers.json_pool import JsonWorkerPool
from elmo_serve.workers.shared_memory import SharedMemoryPool, Vectors
from elmo_serve.workers.text_pool import TextWorkerPool
from tests.support.engines import turns, until
from tests.support.fit_tasks import FitHere
from tests.support.gated_worker import GatedWorker, ModelWorker
from tests.support.servers import SMALL


class NoJsonProcesses(JsonWorkerPool):
    """Writes JSON a few turns of the event loop after it was asked to, in this process."""

    def start(self) -> None:
        """Start nothing."""

    async def stop(self) -> None:
        """Stop nothing."""

    async def write(self, vectors: Sequence[Vectors], *, as_objects: bool = False) -> list[Chunk]:
        """Return the JSON of the vectors, as the processes write it."""
        await turns(5)
        texts = [orjson.dumps(each.numpy().tolist()) for each in vectors]
        if as_objects:
            texts = [
                b'{"object":"embedding","index":%d,"embedding":%b}' % each
                for each in enumerate(texts)
            ]
        return [b",".join(texts)]


class NoTextProcesses(TextWorkerPool):
    """Splits texts in this process."""

    def start(self) -> None:
        """Start nothing."""

    async def tokenize(
        self, task: text_worker.Tokenize
    ) -> text_worker.TokenizedTexts | text_worker.TextRefused:
        """Return the tokens, as a text process does."""
        return text_worker.tokenize(task)


class NoBodyProcess(FitParser):
    """Parses bodies of fits in this process."""

    async def parse(self, body: bytes, source: FitSource) -> FitPlan:
        """Return the plan of a fit, as a process does."""
        return read_fit(body, source).plan()


@dataclass(frozen=True, slots=True)
class InProcess:
    """A server that is ready, its application, its only worker and a client."""

    server: Server
    app: FastAPI
    worker: GatedWorker
    client: httpx.AsyncClient


@asynccontextmanager
async def in_process(
    *,
    is_open: bool = True,
    has_model: bool = False,
    spawn_fit: SpawnFit = FitHere,
    **settings: object,
) -> AsyncIterator[InProcess]:
    """Serve with one worker, whose gate is open unless `is_open` is false, until the block is left.

    With `has_model` the worker has the golden model, on the event loop.
    """
    worker = ModelWorker(SMALL) if has_model else GatedWorker(is_open=is_open)
    given = Settings.model_validate(
        {
            "model": str(SMALL),
            "devices": "cpu",
            **settings,
        }
    )
    server = assemble(given, lambda *_: worker, hardware=Hardware(0), spawn_fit=spawn_fit)
    server.fit_parser = NoBodyProcess(SharedMemoryPool(), Metrics())
    server.json_workers = NoJsonProcesses(1, SharedMemoryPool(), Metrics())
    server.text_workers = NoTextProcesses(1, SharedMemoryPool(), Metrics())
    app = create_app(server)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client,
    ):
        await server.models.first.pool.wait_for_start()
        await until(lambda: server.not_ready_because() is None)
        yield InProcess(server, app, worker, client)
