"""What the routes are given: the parts of one server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from elmo_serve.errors import Unavailable
from elmo_serve.http.load_shedding import Door
from elmo_serve.metrics import Metrics
from elmo_serve.scheduling.engine import Engine
from elmo_serve.settings import Settings
from elmo_serve.tasks import TaskRegistry
from elmo_serve.workers.json_pool import JsonWorkerPool
from elmo_serve.workers.messages import ModelInfo


@dataclass(slots=True)
class Server:
    """The parts of one server. ``registry`` is there once the number of layers is known."""

    settings: Settings
    metrics: Metrics
    engine: Engine
    writers: JsonWorkerPool
    door: Door
    registry: TaskRegistry | None = None
    fatal: str | None = None

    @property
    def info(self) -> ModelInfo:
        """The model; raises Unavailable while none is loaded."""
        info = self.engine.info
        if info is None:
            raise Unavailable(f"Not ready: {self.engine.why_not()}.", retry_after=1)
        return info

    @property
    def tasks(self) -> TaskRegistry:
        """The registered tasks; raises Unavailable while no model is loaded."""
        if self.registry is None:
            raise Unavailable(f"Not ready: {self.engine.why_not()}.", retry_after=1)
        return self.registry


async def _server(request: Request) -> Server:  # a plain function would cost a thread
    server = request.app.state.server
    assert isinstance(server, Server)
    return server


TheServer = Annotated[Server, Depends(_server)]
