"""The application: routes and middleware around the parts of a server.

`python -m elmo_serve.http.app` prints the OpenAPI document.
"""

import asyncio
import copy
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from fastapi.routing import APIRoute
from fastapi.telemetry import TelemetryConfig
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from elmo_serve.http.checks import (
    PROBES,
    RequestChecks,
    check_head,
    connection_check,
    host_check,
)
from elmo_serve.http.context import RequestContext
from elmo_serve.http.openapi import describe
from elmo_serve.http.readiness import VERSION
from elmo_serve.http.routes import (
    embed,
    info,
    language,
    monitoring,
    neighbours,
    openai,
    page,
    tasks,
    uses,
)
from elmo_serve.http.state import Server, assemble
from elmo_serve.settings import Settings

_EXPOSED_HEADERS: Final = (
    "Location",
    "Retry-After",
    "Server-Timing",
    "X-Request-Id",
    "X-Vocabulary",
)
"""Response headers that a script of another origin may read, beyond those of every response."""


def create_app(server: Server, *, is_local: bool = False) -> FastAPI:
    """Return the application; its lifespan starts and stops the processes of `server`.

    With `is_local` this machine alone reaches it, so that names of other hosts in `Host` are
    refused where there are no keys.
    """
    routers = (
        openai.embeddings_router,
        embed.router,
        language.router,
        embed.tokenize_router,
        *(each.router for each in (tasks, neighbours, uses, openai, info, monitoring, page)),
    )
    routes = [each for router in routers for route in router.routes for each in _with_head(route)]
    app = _Application(
        title="elmo-serve",
        summary="ELMo vectors over HTTP",
        version=VERSION,
        lifespan=_lifespan(server),
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        telemetry=_telemetry(server),
        middleware=_middleware(server, routes, is_local=is_local),
        # Given here and not by `include_router`, which matches each request twice.
        routes=routes,
    )
    routes[:] = app.routes  # /openapi.json as well, which FastAPI adds: requests count under it
    app.state.server, app.state.call_parts = server, server.call_parts()
    describe(app, needs_key=bool(server.keys))
    return app


def _telemetry(server: Server) -> TelemetryConfig:
    """Return FastAPI's options: one span of each request, where the server has a provider.

    FastAPI's own exporter is off: it would hold up a stop for 10 s.
    """
    return {
        "tracer_provider": server.tracer_provider,
        "tracing": server.tracer_provider is not None,
        "metrics": False,
        "logs": False,
        "operation_spans": False,
        "auto_configure": False,
        "exclude": lambda scope: scope.get("path") in PROBES,
    }


def _with_head(route: BaseRoute) -> list[BaseRoute]:
    """Return a route and, if it takes GET, the same one for HEAD, which the document leaves out.

    The server sends no body with it.
    """
    if not isinstance(route, APIRoute) or "GET" not in (route.methods or ()):
        return [route]
    head = copy.copy(route)
    head.methods, head.include_in_schema = {"HEAD"}, False
    return [route, head]


class _Application(FastAPI):
    """FastAPI without its own handlers of exceptions, because `RequestChecks` handles every one.

    Three layers around the router, which never see an exception, take 10 us of a small request
    (`benchmarks.over_http --echo`).
    """

    def build_middleware_stack(self) -> ASGIApp:
        """Return the router inside the layers of `_middleware`."""
        # FastAPI's routes need the stack: it closes files of forms.
        app: ASGIApp = AsyncExitStackMiddleware(self.router)
        for layer in reversed(self.user_middleware):
            app = layer.cls(app, *layer.args, **layer.kwargs)
        return app


def _middleware(server: Server, routes: list[BaseRoute], *, is_local: bool) -> list[Middleware]:
    """Return the layers around every route, from the outermost inwards."""
    settings = server.settings
    keys = server.keys
    checks = (
        check_head,
        *([host_check(settings.cors_origins)] if is_local and not keys else ()),
        connection_check(settings.max_connections),
        *([keys.check] if keys else ()),
    )
    return [
        Middleware(RequestContext, metrics=server.metrics, routes=routes),
        *_cross_origin(settings.cors_origins),
        Middleware(RequestChecks, checks=checks),
    ]


def _cross_origin(origins: tuple[str, ...]) -> list[Middleware]:
    """Return the layer that lets pages of other origins read responses, errors as well.

    It answers preflights itself, so that they need no API key: a browser sends none with them.
    """
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "HEAD", "POST"),
            allow_headers=("*",),
            allow_private_network=True,  # of a page of a public site that asks a local server
            expose_headers=_EXPOSED_HEADERS,
        )
    ]


def _lifespan(server: Server) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        server.engine.start()
        server.helpers.start()
        server.keys.start()
        work = (server.readiness.open(), server.trim_memory())
        tasks = [asyncio.create_task(each) for each in work]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await server.close()

    return lifespan


if __name__ == "__main__":
    json.dump(create_app(assemble(Settings())).openapi(), sys.stdout, indent=2, ensure_ascii=False)
    print()
