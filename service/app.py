"""The application: routes and middleware over the parts of a server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fastapi import FastAPI

from service import openapi, problems
from service.assembly import MakeWorker, assemble
from service.dependencies import Server
from service.metrics import Metrics
from service.middleware.api_keys import ApiKeys
from service.middleware.body_limit import BodyLimit
from service.middleware.context import RequestContext
from service.routes import embed, health, info, metrics, tasks
from service.settings import Settings, SettingsError
from service.tasks import TaskRegistry
from service.workers.protocol import ModelInfo

_log = logging.getLogger("service")


def create_app(settings: Settings, make_worker: MakeWorker | None = None) -> FastAPI:
    """Return the application; ``make_worker`` is for workers other than the settings name.

    ``app.state.stop`` is called when it finds that it can never be ready.
    """
    collected = Metrics()
    app = FastAPI(
        title="elmo-serve",
        summary="ELMo vectors over HTTP",
        version=info.VERSION,
        lifespan=_lifespan(settings, collected, make_worker),
        redirect_slashes=False,
        redoc_url=None,
    )
    app.state.stop = lambda: None
    for router in (embed, tasks, info, health, metrics):
        app.include_router(router.router)
    problems.translate(app)
    openapi.describe(app)
    # The last one added is the outermost.
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes)
    if settings.api_keys:
        keys = [key.get_secret_value() for key in settings.api_keys]
        app.add_middleware(ApiKeys, keys=keys)
    app.add_middleware(problems.Problems)
    app.add_middleware(RequestContext, metrics=collected)
    return app


def _lifespan(
    settings: Settings, collected: Metrics, make_worker: MakeWorker | None
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        server = assemble(settings, collected, make_worker)
        app.state.server = server
        server.engine.pool.start()
        server.writers.start()
        opening = asyncio.create_task(_open(server, app))
        try:
            yield
        finally:
            opening.cancel()
            await asyncio.gather(server.engine.pool.stop(), server.writers.stop())

    return lifespan


async def _open(server: Server, app: FastAPI) -> None:
    """Wait for the first worker and say how that went; without any there is nothing to serve."""
    pool = server.engine.pool
    server.fatal = await pool.first_outcome()
    if server.fatal is None:
        assert pool.info is not None
        try:
            server.registry = await asyncio.to_thread(
                TaskRegistry, server.settings.tasks, pool.info.layers
            )
            _announce(pool.info, server)
            return
        except SettingsError as error:
            server.fatal = str(error)
    _log.critical("cannot serve: %s", server.fatal)
    app.state.stop()


def _announce(model: ModelInfo, server: Server) -> None:
    server.metrics.model.info(
        {
            "name": model.name,
            "revision": model.revision,
            "format": model.format,
            "precision": model.precision,
            "version": info.VERSION,
        }
    )
    _log.info("ready", extra={"model": model.name, "revision": model.revision})
    if model.format == "random":
        _log.warning(
            "the model is %s: its weights are random and its vectors mean nothing; "
            "set ELMO_MODEL to a checkpoint",
            model.name,
        )
