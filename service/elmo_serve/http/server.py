"""How the application is run: uvicorn, signals, and the status to exit with."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI
from starlette.types import Scope

from elmo_serve import logs
from elmo_serve.errors import Overloaded
from elmo_serve.http.app import create_app
from elmo_serve.http.http_protocol import Connection, ConnectionLimits
from elmo_serve.http.state import Server
from elmo_serve.loop_failure import LoopFailureHandler
from elmo_serve.settings import Settings

_LAST_BYTES_SECONDS = 5  # after the drain, for answers that are made and not yet read

_KEEP_ALIVE_SECONDS = 75  # longer than clients and proxies keep theirs: they close, not we
_FILES = 256  # beside those of connections: an answer that is being sent has one, and its memory
_FILES_A_CONNECTION = 2
_SWITCH_SECONDS = 0.001
_COLLECTED_OBJECTS = 10_000  # of a request few are left to the collector

_log = logging.getLogger("elmo_serve")


def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; return the status to exit with."""
    logs.configure(settings.log_level, settings.log_format)
    return run(create_app(settings), settings)


def run(app: FastAPI, settings: Settings) -> int:
    """Serve an application; 0 when all that was admitted was answered."""
    _allow_files(_FILES + _FILES_A_CONNECTION * settings.max_connections)
    listener = _Listener(app, settings)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(listener.serve())
    server: Server | None = getattr(app.state, "server", None)
    is_sound = server is not None and server.fatal is None
    return 0 if is_sound and listener.is_drained else 1


class _Listener(uvicorn.Server):
    """uvicorn, stopped in two steps: first nothing new is admitted, then the sockets close."""

    def __init__(self, app: FastAPI, settings: Settings) -> None:
        self.is_drained = True
        self._app = app
        self._drain_seconds = settings.drain_timeout_seconds
        self._draining: asyncio.Task[None] | None = None
        app.state.stop = self._stop
        limits = ConnectionLimits(settings.max_connections, settings.client_timeout_seconds)
        make = functools.partial(
            Connection,
            limits=limits,
            metrics=app.state.metrics,
            refusal=functools.partial(_refusal, app),
        )
        super().__init__(
            uvicorn.Config(
                app,
                host=settings.host,
                port=settings.port,
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                http=make,  # type: ignore[arg-type]  # whatever makes one will do
                ws="none",
                timeout_graceful_shutdown=_LAST_BYTES_SECONDS,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and then keep the garbage collector off what lives as long as the server.

        A full collection over the modules alone holds the event loop for some 20 ms; a thread that
        wants the interpreter waits for 5 ms unless told otherwise.
        """
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        gc.set_threshold(_COLLECTED_OBJECTS)
        sys.setswitchinterval(_SWITCH_SECONDS)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals on the event loop, and do not raise them again at the end."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(LoopFailureHandler())
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        yield
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    def _on_signal(self) -> None:
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain())
        else:
            _log.warning("stopping at once")
            logging.shutdown()
            os._exit(1)  # not to be held up by anything; the children read an end of file

    async def _drain(self) -> None:
        _log.info("draining")
        server: Server | None = getattr(self._app.state, "server", None)
        if server is not None:  # it may not have come so far
            self.is_drained = await server.engine.drain(self._drain_seconds)
        if not self.is_drained:
            _log.error("the drain timeout passed before everything was answered")
        self._stop()

    def _stop(self) -> None:
        self.should_exit = True


def _allow_files(wanted: int) -> None:
    """Let this process open so many files, or as many as it may: shells allow few unless asked."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        _log.warning("few files can be open", extra={"allowed": allowed, "wanted": wanted})


def _refusal(app: FastAPI, scope: Scope) -> Overloaded | None:
    server: Server = app.state.server  # which is made after the listener
    return server.door.refusal(scope)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415  # not on Windows
    except ImportError:
        return None
    return uvloop.new_event_loop
