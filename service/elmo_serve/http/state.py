"""The parts of one server."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from elmo_serve.http.calls.deadline import Deadlines
from elmo_serve.http.helpers.helpers import Helpers
from elmo_serve.http.load_shedding import LoadShedder
from elmo_serve.http.middleware.api_keys import KeyRing
from elmo_serve.http.middleware.context import RequestMetrics
from elmo_serve.http.readiness import Readiness
from elmo_serve.http.served_models import ServedModels
from elmo_serve.metrics import Metrics
from elmo_serve.processes.arena import Arena
from elmo_serve.scheduling.byte_budget import ByteBudget
from elmo_serve.scheduling.engine import Engine
from elmo_serve.settings import Settings
from elmo_serve.tasks.thread import TaskThread

_TRIM_SECONDS = 5.0
"""Seconds between two looks at the shared memory, which is kept for reuse for one or two of them.
To write to memory that was given back takes the kernel several times as long."""

_TRIM_PAUSE_SECONDS = 0.05
"""Pause between two pieces, in which the event loop serves requests."""

if TYPE_CHECKING:  # an extra
    from elmo_serve.tracing.tracer import Tracer


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
    task_thread: TaskThread
    helpers: Helpers
    keys: KeyRing
    load_shedder: LoadShedder
    bodies: ByteBudget
    deadlines: Deadlines
    request_metrics: RequestMetrics
    tracer: "Tracer | None" = None
    address: str = ""
    started_at: int = field(default_factory=lambda: int(time.time()))

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
        self.task_thread.close()
        for model in self.models:
            model.close()
        pools = (self.engine, self.helpers)
        await asyncio.gather(*(pool.stop() for pool in pools))
        if self.tracer is not None:
            self.tracer.close()
