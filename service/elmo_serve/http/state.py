"""The parts of one server, and how the routes are given them."""

import asyncio
import importlib.metadata
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends, Query, Request
from fastapi.routing import APIRoute
from pydantic.json_schema import SkipJsonSchema
from starlette.types import ASGIApp, Receive, Scope, Send

from elmo_serve import logs
from elmo_serve.http.calls.deadline import Deadlines
from elmo_serve.http.calls.parse import RequestLimits
from elmo_serve.http.helpers.fit_pool import FitParser
from elmo_serve.http.helpers.helpers import Helpers
from elmo_serve.http.load_shedding import LoadShedder
from elmo_serve.http.middleware.context import RequestMetrics
from elmo_serve.http.served_models import ServedModel, ServedModels
from elmo_serve.jobs.fit_jobs import FitJobs
from elmo_serve.metrics import Metrics
from elmo_serve.neighbours.user_indexes import UserIndexes
from elmo_serve.scheduling.byte_budget import ByteBudget
from elmo_serve.scheduling.engine import Engine
from elmo_serve.settings import Settings, SettingsError
from elmo_serve.token_warnings import BILM_TOKEN_LIMIT, TokenLimit

if TYPE_CHECKING:  # an extra
    from elmo_serve.tracing.tracer import Tracer

VERSION: Final = importlib.metadata.version("elmo-serve")

_log = logging.getLogger("elmo_serve")


@dataclass(slots=True)
class Server:
    """Everything that lives as long as one server.

    `opened` is set once each model has been loaded or has failed. `fatal` says why the server can
    never become ready, and `failed` is set then. `address` is for browsers and empty until the port
    is known. `started_at` is in seconds since 1970.
    """

    settings: Settings
    metrics: Metrics
    engine: Engine
    models: ServedModels
    indexes: UserIndexes
    helpers: Helpers
    fit_parser: FitParser
    jobs: FitJobs
    load_shedder: LoadShedder
    bodies: ByteBudget
    deadlines: Deadlines
    request_metrics: RequestMetrics
    tracer: "Tracer | None" = None
    address: str = ""
    started_at: int = field(default_factory=lambda: int(time.time()))
    fatal: str | None = None
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    _request_limits: RequestLimits | None = None

    @property
    def request_limits(self) -> RequestLimits:
        """The limits of one request, made once when each model has been loaded or has failed."""
        if self._request_limits is not None:
            return self._request_limits
        limits = RequestLimits(
            self.settings.max_request_sentences,
            self.settings.max_sentence_tokens,
            self._token_limits(),
        )
        if all(model.state != "loading" for model in self.models):
            self._request_limits = limits
        return limits

    def _token_limits(self) -> dict[str | None, TokenLimit | None]:
        """Return the limit of a token by every name by which `ServedModels.get` finds a model."""
        found = [(model, model.pool.info) for model in self.models]
        loaded = [(model, info) for model, info in found if info is not None]
        # Later entries replace earlier ones: the names in the server win over those in checkpoints,
        # and the first model over the others.
        limits: dict[str | None, TokenLimit | None] = {
            **{info.name.casefold(): info.token_limit for _, info in reversed(loaded)},
            **{model.name.casefold(): info.token_limit for model, info in loaded},
        }
        limits[None] = limits.get(self.models.first.name.casefold(), BILM_TOKEN_LIMIT)
        return limits

    def not_ready_because(self) -> str | None:
        """Return why the server is not ready, for anybody; None when it is.

        It is ready once each model has been loaded or has failed, while one of them can answer.
        """
        if self.fatal is not None:
            return "it cannot serve; the log has the reason"
        reasons = {model.name: model.open_reason for model in self.models}
        is_loading = any(model.state == "loading" for model in self.models)
        if not is_loading and None in reasons.values():
            return None
        found = [f"{name}: {reason}" for name, reason in reasons.items() if reason]
        return "; ".join(found) if len(reasons) > 1 else next(iter(reasons.values()))

    async def open(self) -> None:
        """Wait until each model is loaded or has failed; set `fatal` when all have failed."""
        try:
            await asyncio.gather(*map(self._open, self.models))
            if all(model.fault is None for model in self.models):
                self.indexes.check({model.name: model.info.revision for model in self.models})
            if self.settings.index:
                for model in self.models:
                    self._announce(model)
            if all(model.fault is not None for model in self.models):
                self.fatal = "; ".join(f"{each.name}: {each.fault}" for each in self.models)
        except SettingsError as error:
            self.fatal = str(error)
        except Exception as error:  # the start must not end in silence, whatever went wrong
            _log.exception("unexpected error")
            self.fatal = f"{type(error).__name__} at the start"
        if self.fatal is not None:
            _log.critical("cannot serve: %s", self.fatal)
            self.failed.set()
        else:
            logs.show(first_steps(self.address, needs_key=bool(self.settings.api_key_names())))
        self.opened.set()

    async def drain(self) -> bool:
        """Admit nothing more; return whether all that was admitted was answered and sent in time.

        Bodies that have not come by then, and texts that are not split, are answered with 503.
        """
        is_drained = await self.engine.drain(self.settings.drain_timeout_seconds)
        self.deadlines.end()
        return is_drained

    async def close(self) -> None:
        """End the jobs, the processes and the watch over the tasks; send the last spans."""
        await self.jobs.close()
        for model in self.models:
            model.close()
        pools = (self.engine, self.helpers, self.fit_parser)
        await asyncio.gather(*(pool.stop() for pool in pools))
        if self.tracer is not None:
            self.tracer.close()

    async def _open(self, served: ServedModel) -> None:
        is_first = served is self.models.first
        await served.open(self.settings.tasks, self.models.notices, is_first=is_first)
        if served.fault is None:
            await self.jobs.open(served.tasks.folder)
            if not self.settings.index:  # whose models are known once all are loaded
                self._announce(served)
        elif len(self.models) > 1:
            await served.give_up()

    def _announce(self, served: ServedModel) -> None:
        if served.fault is not None:
            return
        model = served.info
        self.metrics.model.labels(served.name).info(
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
                "serve a checkpoint in its place",
                served.name,
            )
        _log.info(
            "Serving %s on %s (docs: /docs)",
            served.name,
            self.address,
            extra={"model": served.name, "revision": model.revision},
        )


def first_steps(address: str, *, needs_key: bool) -> str:
    """Return lines that say what to do with a server that is ready."""
    key = '-H "Authorization: Bearer $ELMO_API_KEY" ' if needs_key else ""
    body = '{"text": ["The bank of the river."], "layers": "top", "pooling": "mean"}'
    return f"""\
Ready: {address}
  page     {address}/ in a browser
  curl     curl {address}/embed {key}-H 'Content-Type: application/json' -d '{body}'
  docs     {address}/docs
  metrics  {address}/metrics"""


async def _server(request: Request) -> Server:  # FastAPI runs a plain function in a thread
    server: Server = request.app.state.server
    return server


TheServer = Annotated[Server, Depends(_server)]
"""The server as a parameter of a route."""

Model = Annotated[
    str | SkipJsonSchema[None],  # generated clients read `anyOf` with null badly
    Query(description="A model of the server. Default: the first one."),
]
"""The name of a model as a parameter of a route; None for the first one."""


class PlainRoute(APIRoute):
    """A route whose endpoint takes the request and returns a response, without dependencies.

    Its ASGI application is the endpoint: the stacks that FastAPI opens for dependencies, and its
    second handling of exceptions, take longer than the queue takes for a small request.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            response: ASGIApp = await endpoint(Request(scope, receive))
            await response(scope, receive, send)

        self.app = app
