"""The application: routes and middleware over the parts of a server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from elmo_serve.http import openapi
from elmo_serve.http import problem_details as problems
from elmo_serve.http.middleware.api_keys import ApiKeys
from elmo_serve.http.middleware.body_limit import BodyLimit
from elmo_serve.http.middleware.connections import SurplusConnections
from elmo_serve.http.middleware.context import RequestContext
from elmo_serve.http.routes import docs, embed, health, info, metrics, tasks
from elmo_serve.http.state import Server
from elmo_serve.http.wiring import MakeWorker, assemble
from elmo_serve.metrics import Metrics
from elmo_serve.settings import Settings, SettingsError
from elmo_serve.task_folder import open_registry
from elmo_serve.workers.messages import ModelInfo

_log = logging.getLogger("elmo_serve")


class Application(FastAPI):
    """FastAPI, and a way around it for the requests that must not wait for it.

    ``direct`` has plain ASGI by method and path.
    """

    direct: Mapping[tuple[str, str], ASGIApp]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            direct = self.direct.get((scope["method"], scope["path"]))
            if direct is not None:
                scope["app"] = self
                await direct(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


def create_app(settings: Settings, make_worker: MakeWorker | None = None) -> Application:
    """Return the application; ``make_worker`` is for workers other than the settings name.

    ``app.state.stop`` is called when it finds that it can never be ready; ``app.state.metrics`` is
    for what never reaches it.
    """
    collected = Metrics()
    layers = _layers(settings, collected)
    app = Application(
        title="elmo-serve",
        summary="ELMo vectors over HTTP",
        version=info.VERSION,
        lifespan=_lifespan(settings, collected, make_worker),
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        middleware=layers,
    )
    app.direct = {("POST", "/embed"): _within(layers, embed.embed)}
    app.state.stop = lambda: None
    app.state.metrics = collected
    for router in (embed, tasks, info, health, metrics, docs):
        app.include_router(router.router)
    problems.translate(app)
    openapi.describe(app, needs_key=bool(settings.every_api_key()))
    return app


def _layers(settings: Settings, collected: Metrics) -> list[Middleware]:
    """Return what lies around every route, from the outermost inwards."""
    layers = [Middleware(RequestContext, metrics=collected), Middleware(problems.Problems)]
    if keys := settings.every_api_key():
        layers.append(Middleware(ApiKeys, keys=keys))
    layers.append(Middleware(SurplusConnections, limit=settings.max_connections))
    return [*layers, Middleware(BodyLimit, limit=settings.max_body_bytes)]


def _within(layers: Sequence[Middleware], app: ASGIApp) -> ASGIApp:
    for make, arguments, options in reversed(layers):
        app = make(app, *arguments, **options)
    return app


def _lifespan(
    settings: Settings, collected: Metrics, make_worker: MakeWorker | None
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        server = assemble(settings, collected, make_worker)
        app.state.server = server
        server.engine.start()
        server.writers.start()
        opening = asyncio.create_task(_open(server, app))
        try:
            yield
        finally:
            opening.cancel()
            if server.registry is not None:
                server.registry.close()
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
                open_registry, server.settings.tasks, pool.info.layers
            )
            server.registry.watch()
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
