"""A connection: limits that an ASGI application cannot enforce, around uvicorn's h11 protocol.

Stands on two interfaces of uvicorn that are not documented as public: `uvicorn.Config(http=...)`
calls its argument with `config`, `server_state`, `app_state` and `_loop`, and
`uvicorn.protocols.http.h11_impl.H11Protocol` is an `asyncio.Protocol` made of the same arguments,
whose `conn` is h11's connection.
`pyproject.toml` bounds uvicorn's version.
"""

import asyncio
import fcntl
import logging
import os
import struct
import termios
from collections.abc import Callable
from typing import Any, Final, cast

from h11 import IDLE, SEND_RESPONSE
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from elmo_serve.errors import MalformedRequest, RequestTimeout, ServiceError, Unavailable
from elmo_serve.http.errors.problem_details import raw_response

_log = logging.getLogger(__name__)

_INT: Final = struct.Struct("i")

_READ_BYTES: Final = 1 << 16
"""Most bytes of a connection that are read in one turn of the event loop. uvloop's own 256 KiB let
150 large bodies hold one turn for so long that others wait more than a second
(`benchmarks.attacks`); fewer bytes cost more system calls for each body."""

_BUFFERED_BYTES: Final = 1 << 16
"""Bytes that are held back until the end of the event loop's turn. More are sent at once: joining
them would copy more than a system call costs."""

_NO_MEMORY: Final = Unavailable("The server is short of memory.", retry_after=1)

_STATE: Final = "connection"
"""Key of the connection in the ASGI `state` of its requests."""


class CoalescingTransport:
    """Joins the writes of one turn of the event loop.

    uvicorn's h11 protocol writes head, body and end of a response one after another. Every other
    method and attribute is that of the transport inside.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._size = 0
        self.lingers = False
        self.is_lingering = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send some bytes at the end of this turn of the event loop; many bytes at once."""
        if not data:
            return
        if not self._held:
            self._loop.call_soon(self.flush)
        self._held.append(data)
        self._size += len(data)
        if self._size > _BUFFERED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send the bytes that are held back; drop them if the connection is closed already."""
        held, self._held, self._size = self._held, [], 0
        if held and not self._transport.is_closing():
            self._transport.writelines(held)

    def get_write_buffer_size(self) -> int:
        """Return the bytes that are not sent yet."""
        return self._size + self._transport.get_write_buffer_size()

    def unread_bytes(self) -> int:
        """Return the bytes written that have not reached the client.

        This counts the kernel's send buffer. It holds megabytes and is refilled only after
        a good part of it was sent, so that a slow reader would look like one that does not read.
        """
        socket = self._transport.get_extra_info("socket")
        queued = fcntl.ioctl(socket, termios.TIOCOUTQ, bytes(_INT.size))
        return self.get_write_buffer_size() + int(_INT.unpack(queued)[0])

    def is_closing(self) -> bool:
        """Tell whether nothing more may be written."""
        return self.is_lingering or self._transport.is_closing()

    def close(self) -> None:
        """Send the bytes that are held back, then close.

        Where it `lingers`, the client closes the connection, or a second call does: closed while
        bytes of the client come in, it would be reset, and the client might lose the response.
        """
        self.flush()
        if self.lingers and not self.is_closing():
            self.is_lingering = True
            self._transport.write_eof()
            self._transport.resume_reading()  # uvicorn pauses it while nobody takes the body
        else:
            self._transport.close()


class ConnectionFactory:
    """Makes one protocol for each connection, and counts those that are open.

    `most` connections are served. A client may take `client_seconds` for a head or for reading.
    `refused(status)` is called for each request that ends before the application sees it.
    """

    def __init__(
        self,
        most: int,
        client_seconds: float,
        refused: Callable[[int], None],
    ) -> None:
        self.open = 0
        self.most = most
        self.client_seconds = client_seconds
        self.refused = refused
        self.buffer = memoryview(bytearray(_READ_BYTES))

    def __call__(self, *, app_state: dict[str, Any], **given: Any) -> asyncio.BaseProtocol:
        """Return uvicorn's h11 protocol inside a `LimitedConnection`."""
        connection = LimitedConnection(self)
        connection.protocol = Http11(app_state={**app_state, _STATE: connection}, **given)
        return connection


class Http11(H11Protocol):
    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: uvicorn's two warnings advise to install a WebSocket library.

        `Upgrade` is ignored on purpose; Java's client asks for h2c in each request.
        """

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP as other errors, in place of uvicorn's text."""
        self.refuse(MalformedRequest("What was sent is not HTTP/1.1."))

    def refuse(self, error: ServiceError) -> None:
        """Answer with an error and close; break off a response that has begun."""
        if self.conn.our_state in (IDLE, SEND_RESPONSE):
            self.transport.write(raw_response(error, os.urandom(16).hex(), closes=True))
            self.transport.close()
        else:
            self.transport.abort()


class LimitedConnection(asyncio.BufferedProtocol):
    """Closes connections that are too many, send no whole head in time or read no response.

    Hands every event of the transport on to `protocol`. The application reports the start and the
    end of each request, because only a parser could tell them from the bytes.
    """

    protocol: Http11

    def __init__(self, factory: ConnectionFactory) -> None:
        self.is_surplus = False
        self._factory = factory
        self._client_seconds = factory.client_seconds
        self._loop = asyncio.get_running_loop()
        self._transport: CoalescingTransport
        self._is_served = False
        self._requests = 0
        self._has_sent = False
        self._has_read = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None

    # Events of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve a connection; close it at once when there are twice as many as the limit."""
        # uvloop's transports have another base class.
        inner = cast(asyncio.Transport, transport)
        self._transport = CoalescingTransport(inner, self._loop)
        self._factory.open += 1
        self.is_surplus = self._factory.open > self._factory.most
        if self._factory.open > 2 * self._factory.most:
            self._transport.abort()
            return
        self._is_served = True
        self.protocol.connection_made(cast(asyncio.Transport, self._transport))
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._factory.open -= 1
        self._stop_head_timer()
        if self._read_timer is not None:
            self._read_timer.cancel()
        if self._is_served:
            self.protocol.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer that all connections read into, one after another."""
        return self._factory.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Hand bytes to the parser; the first ones of a head start the head's timer."""
        if self._transport.is_lingering:
            return
        data = bytes(self._factory.buffer[:nbytes])
        was_closing = self._transport.is_closing()
        self._has_sent = True
        try:
            self.protocol.data_received(data)
        except MemoryError:
            self._refuse_for_memory()
        if self._requests:
            return
        if self._head_timer is None:
            self._start_head_timer()
        if self._transport.is_closing() and not was_closing:
            self._factory.refused(400)
            self._expect_reading()

    def eof_received(self) -> None:
        """Close: a client that ends its half of the connection counts as gone."""
        self.protocol.eof_received()

    def pause_writing(self) -> None:
        """Watch whether the client reads while the write buffer is full."""
        self.protocol.pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """Note that the client has read."""
        self._has_read = True
        self.protocol.resume_writing()

    # Events of the application

    def request_started(self) -> None:
        """Stop the head's timer: the application bounds the rest of a request."""
        self._requests += 1
        self._transport.lingers = False
        self._stop_head_timer()

    def mark_body_unread(self) -> None:
        """Throw the rest of the running request's body away, and give it as long as a head."""
        self._transport.lingers = True

    def request_ended(self) -> None:
        """Watch whether the client reads the end of the response."""
        self._requests -= 1
        self._has_sent = False
        if self._transport.lingers and not self._requests:
            self._start_head_timer()
        if self._transport.get_write_buffer_size():
            self._expect_reading()

    def _refuse_for_memory(self) -> None:
        """Answer 503 and close: the parser may have lost bytes of the request."""
        _log.error("no memory for the bytes of a request")
        self.protocol.refuse(_NO_MEMORY)
        self._expect_reading()

    # Timers

    def _start_head_timer(self) -> None:
        self._stop_head_timer()
        self._head_timer = self._loop.call_later(self._client_seconds, self._head_overdue)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_overdue(self) -> None:
        """Close; answer 408 if a part of a head has come."""
        if self._transport.is_closing() and not self._transport.is_lingering:
            return
        if self._has_sent and not self._transport.lingers:
            self._factory.refused(RequestTimeout.status)
            seconds = f"{self._client_seconds:g} s (ELMO_CLIENT_TIMEOUT_SECONDS)"
            error = RequestTimeout(f"The head had not come within {seconds}.")
            self._transport.write(raw_response(error, os.urandom(16).hex(), closes=True))
        self._transport.lingers = False
        self._transport.close()
        self._expect_reading()

    def _expect_reading(self) -> None:
        if self._read_timer is None and self._transport.get_write_buffer_size():
            self._has_read = False
            self._read_timer = self._loop.call_later(
                self._client_seconds, self._check_reading, self._transport.unread_bytes()
            )

    def _check_reading(self, size: int) -> None:
        """Drop a client that has read none of the `size` bytes that were unread before."""
        self._read_timer = None
        left = self._transport.unread_bytes()
        if self._transport.get_write_buffer_size() and left >= size and not self._has_read:
            _log.info("response not read", extra={"bytes": left})
            self._transport.abort()
        else:
            self._expect_reading()


class _NoConnection:
    """Stands in where the application runs without `LimitedConnection`."""

    is_surplus = False

    def request_started(self) -> None:
        pass

    def mark_body_unread(self) -> None:
        pass

    def request_ended(self) -> None:
        pass


_NO_CONNECTION: Final = _NoConnection()


def connection_of(scope: Scope) -> LimitedConnection | _NoConnection:
    """Return the connection of a request."""
    connection = scope.get("state", {}).get(_STATE, _NO_CONNECTION)
    return cast("LimitedConnection | _NoConnection", connection)
