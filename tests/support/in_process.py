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
from elmo_serve.metrics import Metrics
from elmo_serve.settings import Settings
from elmo_serve.workers import text_worker
from elmo_serve.workers.devices import Hardware
from elmo_serve.workers.json_pool import JsonWorkerPool
from elmo_serve.workers.shared_memory import SharedMemoryPool, Vectors
from elmo_serve.workers.text_pool import TextWorkerPool
from tests.support.engines import turns, until
from tests.support.gated_worker import GatedWorker
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


@dataclass(frozen=True, slots=True)
class InProcess:
    """A server that is ready, its application, its only worker and a client."""

    server: Server
    app: FastAPI
    worker: GatedWorker
    client: httpx.AsyncClient


@asynccontextmanager
async def in_process(**settings: object) -> AsyncIterator[InProcess]:
    """Serve with one worker, whose gate is open, until the block is left."""
    workers: list[GatedWorker] = []

    def make(*_: object) -> GatedWorker:
        workers.append(GatedWorker())
        return workers[-1]

    given = Settings.model_validate({"model": str(SMALL), "devices": "cpu", **settings})
    server = assemble(given, make, hardware=Hardware(0))
    server.json_workers = NoJsonProcesses(1, SharedMemoryPool(), Metrics())
    server.text_workers = NoTextProcesses(1, SharedMemoryPool(), Metrics())
    app = create_app(server)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client,
    ):
        await until(lambda: server.not_ready_because() is None)
        yield InProcess(server, app, workers[0], client)
