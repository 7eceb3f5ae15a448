"""One client's connection: uvicorn's, bounded in number, size and time."""

from __future__ import annotations

import asyncio
import logging
import os
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal, cast

import orjson
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from elmo_serve.errors import (
    HeadTooLarge,
    MalformedRequest,
    Overloaded,
    RequestTimeout,
    ServiceError,
)
from elmo_serve.http import headers
from elmo_serve.http.coalescing_transport import JoinedWrites
from elmo_serve.http.problem_details import MEDIA_TYPE, problem
from elmo_serve.metrics import Metrics

if sys.platform == "linux":
    import fcntl
    import termios

_log = logging.getLogger("elmo_serve.http.http_protocol")

HEAD_BYTES: Final = 1 << 16
"""Of a request's head; more than that is refused when it has not ended by then."""

_INT: Final = struct.Struct("i")
_MOST_AHEAD: Final = 100  # requests sent without waiting for the answer to the first


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Connections that are served, and seconds that a client may keep one waiting."""

    connections: int
    client_seconds: float


class Connection(HttpToolsProtocol):
    """What an application cannot see: heads that do not end, answers that are not read.

    The body that an application waits for is bounded there. The one over the limit of connections
    is told so by the application (``is_surplus`` in the state of its requests) and closed. What
    ``refusal`` has an error for never gets so far: it costs a fraction of a request.
    """

    def __init__(
        self,
        *,
        limits: ConnectionLimits,
        metrics: Metrics,
        refusal: Callable[[Scope], Overloaded | None],
        **given: Any,
    ) -> None:
        super().__init__(**given)
        self._limits = limits
        self._metrics = metrics
        self._refusal = refusal
        self._is_turned_away = False  # the request whose body comes, if any
        self._is_surplus = False
        self._socket: asyncio.Transport
        self._part: Literal["head", "body"] | None = None  # of a request that is not whole yet
        self._head_size = 0
        self._arrival: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._has_read = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)  # uvloop's are not of the class
        super().connection_made(self._socket)
        self.transport = cast(asyncio.Transport, JoinedWrites(self._socket, self.loop))
        self._is_surplus = len(self.connections) > self._limits.connections
        if len(self.connections) > 2 * self._limits.connections:
            self._socket.abort()
            return
        if self._is_surplus:
            self.app_state = {**self.app_state, "is_surplus": True}
        self._await_arrival()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        if self._reading is not None:
            self._reading.cancel()
        super().connection_lost(exc)

    # What the client sends

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._part == "head":
            self._head_size += len(data)
            if self._head_size > HEAD_BYTES:
                self._refuse(HeadTooLarge(f"The head has more than {HEAD_BYTES} bytes."))
            elif self._arrival is None:
                self._await_arrival()
        elif self._arrival is not None and self._is_answering:
            self._arrived()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= _MOST_AHEAD:
            raise ValueError("too many requests ahead")  # the parser hands it on as its own
        super().on_message_begin()
        self._part = "head"
        self._head_size = 0

    def on_headers_complete(self) -> None:
        if (error := self._why_turned_away()) is not None:
            self._part = "body"
            self._is_turned_away = True
            self.transport.write(self._answer_unread(error))
            self.on_response_complete()
            return
        super().on_headers_complete()
        self._part = "body"
        if self._is_surplus:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        if not self._is_turned_away:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._part = None
        if self._is_turned_away:
            self._is_turned_away = False
            self._arrived()
        else:
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        self._refuse(MalformedRequest("What was sent is not HTTP/1.1."))

    def _answer_unread(self, error: Overloaded) -> bytes:
        fields = {
            str(name, "ascii"): str(value, "ascii")
            for name, value in self.server_state.default_headers
        }
        return _answer(error, headers.request_id(cast(Scope, self.scope)), fields)

    def _why_turned_away(self) -> Overloaded | None:
        """Return why a request is answered before it is read: one that nothing else is before."""
        is_asked = (
            self.url == b"/embed"
            and self.parser.get_method() == b"POST"
            and self.parser.should_keep_alive()
            and not self.expect_100_continue  # whether its body comes after a refusal is not known
            and not self._is_answering
            and not self._is_surplus
        )
        return self._refusal(cast(Scope, self.scope)) if is_asked else None

    # What the client reads

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._part == "body":
            self._await_arrival()  # the rest is thrown away, and need not come
        if self._socket.get_write_buffer_size():
            self._await_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        self._has_read = True
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection on which nothing is asked for; its last answer may lie unread."""
        if self._socket.get_write_buffer_size():
            self._socket.abort()
        else:
            super().timeout_keep_alive_handler()

    # Clocks

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_arrival(self) -> None:
        self._arrived()
        self._arrival = self.loop.call_later(self._limits.client_seconds, self._not_arrived)

    def _arrived(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _not_arrived(self) -> None:
        self._arrival = None
        if self._part == "head":
            seconds = self._limits.client_seconds
            self._refuse(
                RequestTimeout(
                    f"The head had not come within {seconds:g} s (ELMO_CLIENT_TIMEOUT_SECONDS)."
                )
            )
        else:  # nothing came, or the rest of a body that was not wanted
            self._socket.abort()

    def _await_reading(self) -> None:
        if self._reading is None:
            self._has_read = False
            self._reading = self.loop.call_later(
                self._limits.client_seconds, self._look, self._unread()
            )

    def _look(self, size: int) -> None:
        """Drop a client that has read nothing of ``size`` bytes since they were seen last."""
        self._reading = None
        if not self._socket.get_write_buffer_size():
            return
        left = self._unread()
        if left >= size and not self._has_read:
            _log.info("answer not read", extra={"bytes": left})
            self._socket.abort()
        else:
            self._await_reading()

    def _unread(self) -> int:
        """Return the bytes that are written and not with the client, as far as can be known.

        The kernel holds megabytes, and takes more only when a good part of them has left: a slow
        reader would pass for one that does not read.
        """
        size = self._socket.get_write_buffer_size()
        if sys.platform == "linux":
            queued = fcntl.ioctl(
                self._socket.get_extra_info("socket"), termios.TIOCOUTQ, bytes(_INT.size)
            )
            (in_kernel,) = _INT.unpack(queued)
            size += int(in_kernel)
        return size

    def _refuse(self, error: ServiceError) -> None:
        """Close; say why, unless that would stand in the place of an answer."""
        if self.transport.is_closing():
            return
        is_in_body = (
            self._part == "body"
            and not self._is_turned_away
            and not self.cycle.response_started
            and not self.pipeline
        )
        if is_in_body or not self._is_answering:
            self._metrics.http_requests.labels("any", "unknown", str(error.status)).inc()
            _log.info("refused", extra={"status": error.status, "why": error.detail})
            self.transport.write(_answer(error, os.urandom(16).hex(), {"connection": "close"}))
        self.transport.close()


def _answer(error: ServiceError, request_id: str, fields: dict[str, str]) -> bytes:
    body = orjson.dumps(problem(error, request_id))
    more = "".join(f"{name}: {value}\r\n" for name, value in (fields | error.headers).items())
    head = (
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\n"
        f"content-type: {MEDIA_TYPE}\r\n"
        f"content-length: {len(body)}\r\n"
        f"x-request-id: {request_id}\r\n"
        f"{more}\r\n"
    )
    return head.encode() + body
