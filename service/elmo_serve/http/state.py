"""The parts of one server, put together from its settings."""

import asyncio
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from elmo_serve.http import telemetry
from elmo_serve.http.api_keys import KeyRing
from elmo_serve.http.call import CallParts
from elmo_serve.http.deadline import Deadlines
from elmo_serve.http.limits import RequestLimits
from elmo_serve.http.models import ServedModel, ServedModels
from elmo_serve.http.readiness import Readiness
from elmo_serve.http.threads import DaemonThreads
from elmo_serve.metrics import Metrics
from elmo_serve.processes.arena import Arena
from elmo_serve.processes.helpers import HelperPool
from elmo_serve.scheduling.admission import QueueLimits
from elmo_serve.scheduling.budgets import Budget
from elmo_serve.scheduling.engine import Engine
from elmo_serve.settings import Settings
from elmo_serve.tasks import TaskFolder
from elmo_serve.uses import Indexes, ModelUses, open_indexes
from elmo_serve.workers.devices import Hardware
from elmo_serve.workers.options import MakeWorker, worker_options, worker_process
from elmo_serve.workers.pool import WorkerPool

if TYPE_CHECKING:  # an extra
    from opentelemetry.sdk.trace import TracerProvider

_TRIM_SECONDS = 5.0
"""Seconds between two looks at the shared memory, which is kept for reuse for one or two of them.
To write to memory that was given back takes the kernel several times as long."""

_TRIM_PAUSE_SECONDS = 0.05
"""Pause between two pieces, in which the event loop serves requests."""


@dataclass(slots=True)
class Server:
    """Everything that lives as long as one server.

    `address` is for browsers and empty until the port is known. `started_at` is in seconds since
    1970.
    """

    settings: Settings
    metrics: Metrics
    arena: Arena
    engine: Engine
    models: ServedModels
    readiness: Readiness
    helpers: HelperPool
    keys: KeyRing
    bodies: Budget
    deadlines: Deadlines
    encoding: DaemonThreads = field(default_factory=partial(DaemonThreads, "elmo-encoding"))
    searching: DaemonThreads = field(default_factory=partial(DaemonThreads, "elmo-search"))
    tracer_provider: "TracerProvider | None" = None
    address: str = ""
    started_at: int = field(default_factory=lambda: int(time.time()))

    def call_parts(self) -> CallParts:
        """Return the parts that a call uses."""
        return CallParts(
            self.settings,
            self.engine,
            self.models,
            self.helpers,
            self.bodies,
            self.deadlines,
            self.encoding,
            self.searching,
        )

    async def drain(self) -> bool:
        """Admit nothing more; return whether all that was admitted was answered and sent in time.

        Bodies that have not come by then, and texts that are not split, are answered with 503.
        """
        is_drained = await self.engine.drain(self.settings.drain_timeout_seconds)
        self.deadlines.end()
        return is_drained

    async def trim_memory(self) -> None:
        """Give back shared memory that was not used for some seconds, again and again."""
        while True:
            await asyncio.sleep(_TRIM_SECONDS)
            while self.arena.trim():  # noqa: ASYNC110  # it is a loop over pieces
                await asyncio.sleep(_TRIM_PAUSE_SECONDS)

    async def close(self) -> None:
        """End the processes and the watch over the tasks; send the last spans."""
        self.readiness.close()
        self.keys.close()
        for model in self.models:
            model.close()
        work: list[Awaitable[None]] = [self.engine.stop(), self.helpers.stop()]
        if self.tracer_provider is not None:
            work.append(asyncio.to_thread(telemetry.close, self.tracer_provider))
        await asyncio.gather(*work)


def _engine(
    settings: Settings, hardware: Hardware, make_worker: MakeWorker, arena: Arena, metrics: Metrics
) -> Engine:
    limits = QueueLimits(
        settings.max_queue_tokens, settings.max_answer_bytes, settings.max_connections
    )
    pools = {
        model.name: WorkerPool(
            worker_options(model, settings, arena, hardware, make_worker),
            metrics,
            fault=model.fault,
        )
        for model in settings.sources
    }
    return Engine(pools, arena, limits, metrics)


def _models(settings: Settings, engine: Engine, indexes: Indexes) -> ServedModels:
    models = [
        ServedModel(
            source.name,
            engine,
            ModelUses(engine, source.name, settings, indexes),
            is_first=index == 0,
        )
        for index, source in enumerate(settings.sources)
    ]
    limits = RequestLimits(settings.max_request_sentences, settings.max_sentence_tokens)
    return ServedModels(models, limits)


def assemble(
    settings: Settings,
    make_worker: MakeWorker = worker_process,
    hardware: Hardware | None = None,
    environment: Mapping[str, str] | None = None,
) -> Server:
    """Return a server whose processes are not started yet.

    `make_worker` makes the workers. `hardware` is by default that of this machine. `environment`
    has the variables of OpenTelemetry, which are no settings.
    """
    metrics = Metrics()
    arena = Arena()
    metrics.shared_memory_bytes.set_function(lambda: arena.used)
    hardware = hardware or Hardware.here()
    engine = _engine(settings, hardware, make_worker, arena, metrics)
    indexes = open_indexes(settings.index)
    served = _models(settings, engine, indexes)
    helpers = HelperPool(arena, metrics, hardware.cores)
    server = Server(
        settings=settings,
        metrics=metrics,
        arena=arena,
        engine=engine,
        models=served,
        readiness=Readiness(
            settings, served, indexes, TaskFolder(settings.tasks), helpers, metrics
        ),
        helpers=helpers,
        keys=KeyRing(settings, metrics.failures.labels("api_keys")),
        bodies=Budget(
            settings.body_budget_bytes,
            "bytes of request bodies",
            "ELMO_MAX_BODY_BYTES",
            connections=settings.max_connections,
        ),
        deadlines=Deadlines(metrics.failures.labels("deadline")),
        tracer_provider=telemetry.tracer_provider(environment or {}),
    )
    metrics.receiving_bytes.set_function(lambda: server.bodies.used)
    return server
