"""The service on Ray Serve: the application of `elmo serve` in replicas on many machines.

    serve run elmo_serve.ray_serve:app model=english

Ray places the replicas, chooses one for each request, replaces lost ones and scales them. Their
number, their resources and the autoscaling are Ray's own options of the deployment `Embeddings`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import ray
from ray import serve
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo_model.system import let_threads_sleep
from elmo_serve import logs
from elmo_serve.commands.serve_settings import with_resolved_models
from elmo_serve.http.app import create_app
from elmo_serve.http.state import assemble
from elmo_serve.models.download import with_cache
from elmo_serve.settings import Settings, variable
from elmo_serve.settings.text import from_strings
from elmo_serve.workers.devices import VISIBLE, Hardware

_ONGOING_REQUESTS: Final = 10_000
"""Requests that Ray gives to one replica at a time. The queue of a replica refuses what has no
room, so this only has to be larger than what fits that queue."""

_REQUEST_ID: Final = b"x-request-id"


def app(arguments: Mapping[str, object]) -> serve.Application:
    """Return the application for `serve run` and for the file of `serve deploy`.

    `arguments` are settings by field name; one that is not given is taken from its variable.

    Raises:
        SettingsError: an argument or a variable is not allowed.
    """
    given = {name: str(value) for name, value in arguments.items()}
    values = {name: os.environ.get(variable(name)) for name in Settings.model_fields}
    if given.keys() & {"model", "models"}:  # an argument for one replaces both variables
        values["model"] = values["models"] = None
    settings = from_strings({**values, **given}, {name: name for name in given})
    return deployment(settings).bind(settings)


def deployment(settings: Settings) -> serve.Deployment:
    """Return the deployment, whose `options` are Ray's own: replicas, resources, autoscaling."""
    return serve.deployment(
        serve.ingress()(Embeddings),
        name=Embeddings.__name__,
        max_ongoing_requests=_ONGOING_REQUESTS,
        # The application has an access log of its own.
        logging_config={"enable_access_log": False},
        graceful_shutdown_timeout_s=settings.drain_timeout_seconds + 10,
    )


class Embeddings:
    """A replica: one server with the GPUs and the CPUs that Ray gives to its actor."""

    # Ray Serve awaits it, which Python itself does not.
    async def __init__(self, settings: Settings) -> None:  # type: ignore[misc]
        let_threads_sleep(os.environ)
        logs.configure(settings.log_level, settings.log_format)
        cpus = ray.get_runtime_context().get_assigned_resources().get("CPU", 1.0)
        # Ray shows an actor its own GPUs alone, by this variable.
        hardware = replace(Hardware.here(os.environ.get(VISIBLE)), cores=max(1, int(cpus)))
        hardware.check(settings.devices, f"ELMO_DEVICES={settings.devices}")
        here = await asyncio.to_thread(lambda: with_resolved_models(with_cache(settings)))
        self._server = assemble(here, hardware=hardware, environment=os.environ)

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Return the application, inside the replica; its lifespan starts the processes."""
        return _behind_ray(create_app(self._server))

    async def check_health(self) -> None:
        """Raise RuntimeError once no model can answer again: Ray starts another replica."""
        readiness = self._server.readiness
        await readiness.opened.wait()
        if not any(model.can_recover for model in self._server.models) or readiness.reason:
            raise RuntimeError(readiness.reason or "no model has a worker; the log says why")


def _behind_ray(app: ASGIApp) -> ASGIApp:
    """Return an application that fits Ray's own server.

    Paths are those of `elmo serve`, without the prefix of the Ray application. Bodies are bytes:
    Ray pickles them, and a memoryview cannot be pickled. Ray adds the request id to the response by
    itself, the same one that it gave to the request.
    """

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        known = [pair for pair in scope.get("headers", ()) if pair[0] == _REQUEST_ID]
        if prefix := scope.get("root_path"):
            scope = {**scope, "path": scope["path"].removeprefix(prefix) or "/", "root_path": ""}

        async def send_plain(message: Message) -> None:
            body = message.get("body")
            if isinstance(body, memoryview):
                message = {**message, "body": bytes(body)}
            elif message["type"] == "http.response.start":
                headers = [pair for pair in message["headers"] if tuple(pair) not in known]
                message = {**message, "headers": headers}
            await send(message)

        await app(scope, receive, send_plain)

    return wrapped
