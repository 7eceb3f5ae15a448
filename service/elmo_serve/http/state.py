"""The parts of one server, which the routes and the middleware are given."""

import asyncio
import importlib.metadata
import logging
from dataclasses import dataclass, field
from typing import Annotated, Final

from fastapi import Depends, Request

from elmo_serve.errors import Unavailable
from elmo_serve.http.load_shedding import LoadShedder
from elmo_serve.http.request_body import ReceivingBudget
from elmo_serve.http.request_metrics import RequestMetrics
from elmo_serve.http.stop_signal import StopSignal
from elmo_serve.metrics import Metrics
from elmo_serve.scheduling.engine import Engine
from elmo_serve.settings import Settings, SettingsError
from elmo_serve.task_folder import open_registry
from elmo_serve.tasks import TaskRegistry
from elmo_serve.workers.json_pool import JsonWorkerPool
from elmo_serve.workers.messages import ModelInfo

VERSION: Final = importlib.metadata.version("elmo-serve")

_log = logging.getLogger("elmo_serve")


@dataclass(slots=True)
class Server:
    """Everything that lives as long as one server.

    `fatal` says why it can never become ready, and `failed` is set then. `address` is for browsers
    and empty until the port is known. The tasks are read once the number of layers is known.
    """

    settings: Settings
    metrics: Metrics
    engine: Engine
    json_workers: JsonWorkerPool
    load_shedder: LoadShedder
    receiving: ReceivingBudget
    request_metrics: RequestMetrics
    stop_signal: StopSignal = field(default_factory=StopSignal)
    address: str = ""
    fatal: str | None = None
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: TaskRegistry | None = None

    @property
    def info(self) -> ModelInfo:
        """The model; raises Unavailable while none is loaded."""
        if self.engine.info is None:
            raise self._unavailable()
        return self.engine.info

    @property
    def tasks(self) -> TaskRegistry:
        """The registered tasks; raises Unavailable while no model is loaded."""
        if self._tasks is None:
            raise self._unavailable()
        return self._tasks

    def not_ready_because(self) -> str | None:
        """Return why no request can be answered now; None when the server is ready."""
        reason = self.engine.why_not()
        if reason is None and self._tasks is None:
            return self.fatal or "the tasks are being read"
        return reason

    def _unavailable(self) -> Unavailable:
        return Unavailable(f"Not ready: {self.not_ready_because()}.", retry_after=1)

    async def open(self) -> None:
        """Wait for the first worker, then read the tasks; set `fatal` when that fails for good."""
        try:
            self.fatal = await self.engine.pool.first_outcome()
            if self.fatal is None:
                layers = self.info.layers
                self._tasks = await asyncio.to_thread(open_registry, self.settings.tasks, layers)
                self._tasks.watch()
                self._announce()
        except SettingsError as error:
            self.fatal = str(error)
        except Exception as error:  # the start must not end in silence, whatever went wrong
            _log.exception("unexpected error")
            self.fatal = f"{type(error).__name__} at the start"
        if self.fatal is not None:
            _log.critical("cannot serve: %s", self.fatal)
            self.failed.set()

    async def close(self) -> None:
        """End the processes, and the watch over the tasks."""
        if self._tasks is not None:
            self._tasks.close()
        await asyncio.gather(self.engine.pool.stop(), self.json_workers.stop())

    def _announce(self) -> None:
        model = self.info
        self.metrics.model.info(
            {
                "name": model.name,
                "revision": model.revision,
                "format": model.format,
                "precision": model.precision,
                "version": VERSION,
            }
        )
        if model.format == "random":
            _log.warning(
                "the model is %s: its weights are random and its vectors mean nothing; "
                "set ELMO_MODEL to a checkpoint",
                model.name,
            )
        _log.info(
            "Serving %s on %s (docs: /docs)",
            model.name,
            self.address,
            extra={"model": model.name, "revision": model.revision},
        )


async def _server(request: Request) -> Server:  # FastAPI runs a plain function in a thread
    server: Server = request.app.state.server
    return server


TheServer = Annotated[Server, Depends(_server)]
"""The server as a parameter of a route."""
