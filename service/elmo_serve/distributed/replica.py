"""The server of `elmo serve` as a replica: inside a process that Ray starts and ends."""

from __future__ import annotations

from dataclasses import replace

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo_model.word_vectors.store import store_folder
from elmo_serve.distributed.autoscaling import OUTSTANDING_TOKENS
from elmo_serve.http.app import create_app
from elmo_serve.http.helpers.pool import default_count
from elmo_serve.http.state import Server
from elmo_serve.models.cache import cache_settings, with_cache
from elmo_serve.models.fetching import locate
from elmo_serve.settings import Settings

_REQUEST_ID = b"x-request-id"


class Replica:
    """One server, and the methods that Ray Serve calls on it."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def application(self) -> ASGIApp:
        """Return the application, for Ray's own server; its lifespan starts the processes."""
        return _behind_ray(create_app(self._server))

    async def check_health(self) -> None:
        """Wait until each model has been loaded or has failed; later calls return at once.

        Raises RuntimeError when one of them cannot answer again: Ray starts another replica.
        """
        await self._server.opened.wait()
        lost = [model for model in self._server.models if not model.can_recover]
        if self._server.fatal is not None or lost:
            reasons = [f"{model.name}: {model.fault or model.pool.reason}" for model in lost]
            raise RuntimeError("; ".join(reasons) or self._server.fatal)

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Return the tokens that wait or run, for `QueuedTokens`."""
        return {OUTSTANDING_TOKENS: float(self._server.engine.admission.outstanding)}


def on_this_machine(settings: Settings, cores: int) -> Settings:
    """Return settings with the cache folder, the models and the word vectors of this machine.

    Published models are downloaded if the cache lacks them. `cores` are those of the replica, by
    which the number of its helper processes is chosen unless it is set.

    Raises:
        DownloadError: a published model cannot be fetched.
        SettingsError, WordVectorsError, OSError: see `cache_settings` and `store_folder`.
    """
    settings = with_cache(settings)
    specs = [
        replace(spec, source=locate(spec.source, lambda: cache_settings(settings)))
        for spec in settings.specs
    ]
    count = default_count(cores)
    found: dict[str, object] = {
        "models": tuple(specs),
        "json_workers": settings.json_workers or count,
        "text_workers": settings.text_workers or count,
    }
    if settings.word_vectors is not None:
        found["word_vectors"] = store_folder(settings.word_vectors, cache_settings(settings).cache)
    return settings.model_copy(update=found)


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
