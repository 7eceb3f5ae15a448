"""A connection: uvicorn's h11 protocol with limits that an ASGI application cannot enforce.

`uvicorn.protocols.http.h11_impl` is not documented as public; `pyproject.toml` bounds uvicorn's
version. Used are the arguments of `H11Protocol`, its attributes `conn`, `cycle`, `client`,
`connections` and `timeout_keep_alive`, and the methods that are overridden here.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, cast

import h11
from starlette.types import Scope
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from elmo_serve.errors import MalformedRequest, RequestTimeout, ServiceError, Unavailable
from elmo_serve.http import headers
from elmo_serve.http.error_responses import raw_response

_LEAST_PACE: Final = 1 << 18
"""Least mean pace in bytes a second at which a client must read a response. A lower one lets slow
readers hold the bytes of large responses for longer: at this one, 1 GiB for 68 minutes."""

_READ_AWAY_BYTES: Final = 1 << 20
"""Largest body that is read away after its request was refused. Reading more costs more than the
new connection that the client then needs."""

_MAPPED: Final = "::ffff:"
_STATE: Final = "connection"
"""Key of the connection in the ASGI `state` of its requests."""

_log = logging.getLogger(__name__)

_OUT_OF_MEMORY: Final = "a connection was closed, out of memory"


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of a server's connections.

    At most `connections` are served, and `most` are kept open. A client may take `head_seconds` for
    the head of a request, and `response_seconds` for a response in addition to its bytes at
    `_LEAST_PACE`. `refused` is called with the status of each request that ends before the
    application sees it.
    """

    connections: int
    most: int
    head_seconds: float
    response_seconds: float
    refused: Callable[[int], None]


def log_fault(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log a fault that no task has taken: one line where uvloop had no memory to read into."""
    if isinstance(context.get("exception"), MemoryError):
        _log.error(_OUT_OF_MEMORY)
    else:
        loop.default_exception_handler(context)


class Http11(H11Protocol):
    """One connection.

    `is_surplus` tells whether there were too many when it was opened, `refused` is the status with
    which the parser answered a request that the application had begun.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, _STATE: self}, _loop)
        self.is_surplus = False
        self.refused: int | None = None
        self._is_ended = False
        self._limits = limits
        self._head_timer: asyncio.TimerHandle | None = None
        self._response_timer: asyncio.TimerHandle | None = None
        self._response_due: float | None = (
            None  # None: the write buffer was empty at the last read event
        )

    # Events of the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Serve a connection; close it at once when there are too many to refuse its request."""
        super().connection_made(transport)
        if self.client is not None:  # an IPv4 address on a socket for both families
            self.client = (self.client[0].removeprefix(_MAPPED), self.client[1])
        self.is_surplus = len(self.connections) > self._limits.connections
        if len(self.connections) > self._limits.most:
            transport.abort()
        else:
            self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._stop_head_timer()
        self._stop_response_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse some bytes. A head, or the rest of an unread body, has a limited time to come."""
        if self._is_ended:
            return
        if not self.transport.get_write_buffer_size():
            self._response_due = None
        try:
            super().data_received(data)
        except MemoryError:
            # The parser may have lost some bytes: there is no state to go on from.
            _log.error(_OUT_OF_MEMORY)
            self._is_ended = True
            self._end_with(Unavailable("The server lacks memory.", retry_after=1))
        if self._is_in_request() or self.transport.is_closing():
            self._stop_head_timer()
        elif self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self._stop_head_timer()  # the unread body has come to its end
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        elif self._head_timer is None:
            self._start_head_timer()

    # Events of the application

    def response_starts(self, scope: Scope, size: int) -> bool:
        """Limit the time to read a response of `size` bytes; tell whether the connection ends then.

        The rest of a body that is still to come is read away only if it is small. After a response
        without `100 Continue`, the client may or may not send it.
        """
        self._limit_response(size)
        if self.conn.their_state is not h11.SEND_BODY:
            return self.is_surplus
        # Of the transport, a request uses these three methods.
        self.cycle.transport = cast(
            asyncio.Transport,
            SimpleNamespace(
                write=self.transport.write,
                is_closing=self.transport.is_closing,
                close=self._close_later,
            ),
        )
        announced = headers.content_length(scope)
        return (
            self.is_surplus
            or self.conn.they_are_waiting_for_100_continue
            or announced is None
            or announced > _READ_AWAY_BYTES
        )

    def _limit_response(self, size: int) -> None:
        """Drop the client unless it has read a response of `size` bytes in time.

        Responses that are sent before an earlier one has left have the sum of their times, because
        the client reads them one after another.
        """
        if self.transport.is_closing():
            return
        if self._response_due is None or not self.transport.get_write_buffer_size():
            self._response_due = self.loop.time() + self._limits.response_seconds
        self._response_due += size / _LEAST_PACE
        self._stop_response_timer()
        self._response_timer = self.loop.call_at(self._response_due, self._response_overdue)

    def _close_later(self) -> None:
        """End the response; close when the client does, or after the time for a head.

        Closed while bytes of the client come in, the connection would be reset, and the client or
        its proxy could lose the response. The bytes are thrown away unparsed.
        """
        self._is_ended = True
        self.transport.write_eof()
        self._start_head_timer()

    # Responses without the application

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP as other errors, in place of uvicorn's text.

        A response that has begun is broken off.
        """
        self._end_with(MalformedRequest("What was sent is not HTTP/1.1."))

    def _end_with(self, error: ServiceError) -> None:
        """Answer with an error and close, or break off a response that has begun."""
        if not self._is_in_request():
            self._limits.refused(error.status)
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.refused = error.status
            self._refuse(error)
        else:
            self.transport.abort()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: uvicorn's two warnings advise to install a WebSocket library.

        `Upgrade` is ignored on purpose; Java's client asks for h2c in each request.
        """

    def _refuse(self, error: ServiceError) -> None:
        response = raw_response(error, os.urandom(16).hex())
        self._limit_response(len(response))
        self.transport.write(response)
        self.transport.close()

    def _is_in_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    # Timers

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self._limits.head_seconds, self._head_overdue)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_overdue(self) -> None:
        """Close; answer 408 if a part of a head has come."""
        if self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
            self._limits.refused(RequestTimeout.status)
            seconds = f"{self._limits.head_seconds:g} s (ELMO_CLIENT_TIMEOUT_SECONDS)"
            self._refuse(RequestTimeout(f"The head had not come within {seconds}."))
        else:
            self.transport.close()

    def _stop_response_timer(self) -> None:
        if self._response_timer is not None:
            self._response_timer.cancel()
            self._response_timer = None

    def _response_overdue(self) -> None:
        """Drop the client unless the response, which is the latest one, has left."""
        unsent = self.transport.get_write_buffer_size()
        if unsent or (self._is_in_request() and self.cycle.response_started):
            _log.info("response not read in time", extra={"unsent_bytes": unsent})
            self.transport.abort()


class _NoConnection:
    """Stands in where the application runs without `Http11`."""

    is_surplus = False
    refused = None

    def response_starts(self, scope: Scope, size: int) -> bool:
        return False


_NO_CONNECTION: Final = _NoConnection()


def connection_of(scope: Scope) -> Http11 | _NoConnection:
    """Return the connection of a request."""
    connection: Http11 | _NoConnection = scope.get("state", {}).get(_STATE, _NO_CONNECTION)
    return connection
