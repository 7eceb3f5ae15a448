"""How the application is run, on Linux: sockets, uvicorn, signals, and the status to exit with."""

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final, cast

import uvicorn
import uvloop
from fastapi import FastAPI

from elmo_serve import logs
from elmo_serve.http.app import create_app
from elmo_serve.http.connection import ConnectionLimits, Http11, log_fault
from elmo_serve.http.context import count_unparsed
from elmo_serve.http.state import Server, assemble
from elmo_serve.settings import Settings, SettingsError
from elmo_serve.workers.devices import Hardware

_BACKLOG: Final = 2_048
"""Connections that the kernel completes while the event loop is busy; uvicorn's default."""

_HEAD_BYTES: Final = 1 << 16
"""Of a head, or of the trailers of a chunked body, that has not ended. h11's own 16 KiB are less
than some proxies send in cookies and tokens."""

_LAST_BYTES_SECONDS: Final = 5
"""After the drain, for the last bytes in buffers, and for errors at the end of the drain time."""

_FILES: Final = 256
"""Descriptors that belong to no connection: workers, log, model, shared memory. A connection has
one, its socket."""

_SWITCH_SECONDS: Final = 0.001
"""Time after which a thread that computes gives the interpreter to one that waits. Python's 5 ms
delay the event loop by as much; less costs throughput (`benchmarks.event_loop` at
commit 5a1c226a)."""

_GEN0_OBJECTS: Final = 10_000
"""Allocations before the garbage collector runs: requests leave few cyclic objects."""

_EVERY_IPV4: Final = "0.0.0.0"
_EVERY_ADDRESS: Final = "::"
"""Hosts that stand for all interfaces; the second one for those of IPv4 and IPv6."""

_log = logging.getLogger("elmo_serve")


def serve(settings: Settings, hardware: Hardware, environment: Mapping[str, str]) -> int:
    """Serve on that hardware until SIGTERM, SIGINT or SIGHUP; return the status to exit with.

    `environment` is for traces; see `telemetry.tracer_provider`.

    Raises:
        SettingsError: the address or the port cannot be used.
    """
    logs.configure(settings.log_level, settings.log_format)
    return run(assemble(settings, hardware=hardware, environment=environment))


def run(server: Server, app: FastAPI | None = None) -> int:
    """Serve until one of these signals; return 0 when every admitted request was answered, else 1.

    `app`: an application made by `create_app(server)` and wrapped by the caller (tests).

    Raises:
        SettingsError: the address or the port cannot be used.
    """
    settings = server.settings
    # Beyond `max_connections` a connection is kept for one response, which refuses it.
    connections = _allow_connections(2 * settings.max_connections)
    with ExitStack() as stack:
        sockets = [stack.enter_context(each) for each in listen(settings)]
        server.address = _address(settings.host, sockets[0].getsockname()[1])
        uvicorn_server = _UvicornServer(
            server, app or create_app(server, is_local=settings.is_local), connections
        )
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(uvicorn_server.serve(sockets))
    return 0 if server.readiness.reason is None and uvicorn_server.is_drained else 1


class _UvicornServer(uvicorn.Server):
    """uvicorn, stopped in two steps: first the queue is drained, then the sockets close."""

    def __init__(self, server: Server, app: FastAPI, connections: int) -> None:
        self.is_drained = True
        self._is_draining = False
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()
        settings = server.settings
        limits = ConnectionLimits(
            settings.max_connections,
            connections,
            settings.client_timeout_seconds,
            settings.request_timeout_seconds,
            partial(count_unparsed, server.metrics),
        )
        super().__init__(
            uvicorn.Config(
                app,
                workers=1,  # else uvicorn reads WEB_CONCURRENCY
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=settings.keep_alive_seconds,
                http=cast(type[asyncio.Protocol], partial(Http11, limits)),  # called like a class
                ws="none",
                h11_max_incomplete_event_size=_HEAD_BYTES,
                backlog=_BACKLOG,
                timeout_graceful_shutdown=_LAST_BYTES_SECONDS,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start; then tune the interpreter for a process that answers many small requests."""
        asyncio.get_running_loop().set_exception_handler(log_fault)
        await super().startup(sockets)
        every = ", on every interface" if _is_every(self._server.settings.host) else ""
        _log.info("listening on %s%s", self._server.address, every)
        if not (self._server.settings.is_local or self._server.keys):
            _log.warning("no API key is set: every client of this address can use the server")
        self._run(self._announce())
        # A full collection over the modules alone would hold the event loop for some 20 ms.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GEN0_OBJECTS)
        sys.setswitchinterval(_SWITCH_SECONDS)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals on the event loop; uvicorn would raise them again at the end."""
        loop = asyncio.get_running_loop()
        numbers = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup asks for that
            numbers.append(signal.SIGHUP)  # the terminal is closed
        for number in numbers:
            loop.add_signal_handler(number, self._on_signal)
        yield
        for number in numbers:
            loop.remove_signal_handler(number)

    def _on_signal(self) -> None:
        if not self._is_draining:
            self._is_draining = True
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a shell and its terminal each send one
            self._run(self._drain())
        else:
            _log.warning("stopping at once")
            logging.shutdown()
            os._exit(1)  # nothing may hold it up; the children end when their pipes close

    async def _drain(self) -> None:
        _log.info("draining")
        self.is_drained = await self._server.drain()
        if self.is_drained:
            _log.info("drained: every admitted request is answered")
        else:
            _log.error("the drain timeout passed before everything was answered")
        self.should_exit = True

    async def _announce(self) -> None:
        """Say what is served, and where, once each model is loaded or has failed; stop for none."""
        server = self._server
        await server.readiness.opened.wait()
        if server.readiness.reason is not None:
            self.should_exit = True
            return
        for model in server.models:
            if model.fault is None:
                fields = {"model": model.name, "revision": model.info.revision}
                text = "Serving %s on %s (docs: /docs)"
                _log.info(text, model.name, server.address, extra=fields)
        needs_key = bool(server.keys)
        logs.show(first_steps(server.address, needs_key=needs_key))

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the event loop keeps no reference
        task.add_done_callback(self._tasks.discard)


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


def listen(settings: Settings) -> list[socket.socket]:
    """Return a listening socket for each address of the host.

    Raises:
        SettingsError: the host has no address, or the port is taken or not allowed.
    """
    host, port = settings.host, settings.port
    has_both = host == _EVERY_ADDRESS and socket.has_dualstack_ipv6()
    if host == _EVERY_ADDRESS and not has_both:
        _log.warning("no IPv6 here: listening on 0.0.0.0 in place of ::")
        host = _EVERY_IPV4
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, *_, address in dict.fromkeys(found):
            if sockets:  # with port 0 the first address chooses
                port = sockets[0].getsockname()[1]
            sockets.append(
                socket.create_server(
                    (str(address[0]), port),
                    family=family,
                    backlog=_BACKLOG,
                    dualstack_ipv6=has_both,
                )
            )
    except OSError as error:
        for each in sockets:
            each.close()
        why = str(error.strerror).partition(" (while")[0]  # Python adds the address once more
        raise SettingsError(
            f"ELMO_HOST={host!r} (--host) and ELMO_PORT={port} (--port) cannot be listened on: "
            f"{why}"
        ) from None
    return sockets


def _address(host: str, port: int) -> str:
    """Return the address to open in a browser."""
    name = "localhost" if _is_every(host) else host
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def _is_every(host: str) -> bool:
    return host in (_EVERY_IPV4, _EVERY_ADDRESS)


def _allow_connections(wanted: int) -> int:
    """Return the number of connections that may be open, `wanted` if that many files may be.

    Raises this process's limit of open files to that, or as far as it may.
    """
    files = _FILES + wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= files:
        return wanted
    allowed = files if hard == resource.RLIM_INFINITY else min(files, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < files:
        _log.warning("few files can be open", extra={"allowed": allowed, "wanted": files})
    return max(allowed - _FILES, allowed // 2)
