"""The application in the process of a test, over a gated worker and without child processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import orjson
from fastapi import FastAPI
from starlette.types import Message, Receive

from elmo_serve.http.app import create_app
from elmo_serve.http.state import Server, assemble
from elmo_serve.metrics import Metrics
from elmo_serve.processes.arena import Arena, Block
from elmo_serve.processes.helpers import HelperPool
from elmo_serve.settings import Settings
from elmo_serve.workers.devices import Hardware
from tests.support.engines import turns, until
from tests.support.http_messages import http_scope, pieces
from tests.support.servers import SMALL
from tests.support.workers import GatedWorker, ModelWorker


class HelpersHere(HelperPool):
    """Runs functions in this process, a few turns of the event loop after it was asked to."""

    def start(self) -> None:
        """Start nothing."""

    async def stop(self) -> None:
        """Stop nothing."""

    def run(
        self,
        function: Callable[..., Any],
        *arguments: object,
        client: str,
        is_slow: bool = False,
        output: int = 0,
    ) -> asyncio.Future[Any]:
        """Return what a process would."""
        given = [each.array if isinstance(each, Block) else each for each in arguments]

        async def result() -> Any:
            await turns(5)
            if output:
                memory = self.arena.acquire(output).array
                return memory.data, function(memory, *given)
            return function(*given)

        return asyncio.ensure_future(result())


def helpers_here() -> HelpersHere:
    """Return helpers that start no processes."""
    return HelpersHere(Arena(), Metrics(), 1)


@dataclass(frozen=True, slots=True)
class InProcess:
    """A server that is ready, its application, its only worker and a client."""

    server: Server
    app: FastAPI
    worker: GatedWorker
    client: httpx.AsyncClient


class SlowReader:
    """A client that reads nothing of a response until its gate is opened.

    `request` is the task of the application.
    """

    def __init__(
        self, serving: InProcess, route: str, members: Mapping[str, Any], address: str = "192.0.2.7"
    ) -> None:
        self.gate = asyncio.Event()
        self.has_begun = asyncio.Event()
        self.body = b""
        scope = {
            **http_scope(route, content_type="application/json"),
            "query_string": b"",
            "raw_path": route.encode(),
            "client": (address, 1),
        }
        content = pieces(orjson.dumps(members))
        self.request = asyncio.ensure_future(
            serving.app({**scope, "app": serving.app}, self._receive(content), self._send)
        )

    def _receive(self, content: Receive) -> Receive:
        is_first = True

        async def receive() -> Message:
            nonlocal is_first
            if not is_first:
                await asyncio.Event().wait()  # it never leaves
            is_first = False
            return await content()

        return receive

    async def _send(self, message: Message) -> None:
        self.has_begun.set()
        await self.gate.wait()
        self.body += bytes(message.get("body", b""))


@asynccontextmanager
async def in_process(
    *,
    is_open: bool = True,
    has_model: bool = False,
    environment: Mapping[str, str] | None = None,
    **settings: object,
) -> AsyncIterator[InProcess]:
    """Serve with one worker, whose gate is open unless `is_open` is false, until the block is left.

    With `has_model` the worker has a model, by default the golden one, on the event loop.
    `environment` turns traces on.
    """
    folder = TemporaryDirectory()
    given = Settings.model_validate(
        {"model": str(SMALL), "devices": "cpu", "tasks": folder.name, **settings}
    )
    worker = GatedWorker(is_open=is_open)
    if has_model:
        names = ("softmax", "softmax_words")
        asked = {name: value for name in names if (value := getattr(given, name)) is not None}
        worker = ModelWorker(Path(given.model), **asked)
    server = assemble(
        given,
        lambda *_: worker,
        hardware=Hardware(0),
        environment=environment,
    )
    server.helpers = helpers_here()
    app = create_app(server)
    with folder:
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client,
        ):
            await server.models.first.pool.wait_for_start()
            await until(lambda: server.readiness.public_reason is None)
            yield InProcess(server, app, worker, client)
