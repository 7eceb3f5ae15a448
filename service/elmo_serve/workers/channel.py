"""Messages between the server and its child processes: length-prefixed pickles on a socket pair."""

from __future__ import annotations

import asyncio
import logging
import pickle
import socket
import struct
from collections.abc import Callable
from typing import Any, cast

_log = logging.getLogger("elmo_serve.workers")

_LENGTH = struct.Struct("<I")


class Channel(asyncio.Protocol):
    """The server's end of a socket pair. It never blocks the event loop.

    `error` is why the channel was closed from this side: the socket failed, or `on_message` raised.
    """

    def __init__(self, on_message: Callable[[Any], None]) -> None:
        self.closed = asyncio.Event()
        self.error: Exception | None = None
        self._on_message = on_message
        self._buffer = bytearray()
        self._transport: asyncio.WriteTransport | None = None
        self._is_closing = False
        self._unsent: list[bytes] = []

    async def open(self, end: socket.socket) -> None:
        """Take over one end of a socket pair."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, sock=end)

    def send(self, message: object) -> None:
        """Queue a message. The transport keeps the bytes that the child has not read yet."""
        frame = _frame(message)
        if self._transport is None:
            self._unsent.append(frame)
        else:
            self._transport.write(frame)

    def close(self) -> None:
        """Close this end. The child reads an end of file after the messages that were sent."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the messages that were queued before the channel was open."""
        # uvloop's transports do not derive from asyncio's.
        self._transport = cast(asyncio.WriteTransport, transport)
        for frame in self._unsent:
            self._transport.write(frame)
        self._unsent.clear()
        if self._is_closing:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Pass every message that is complete to `on_message`.

        When that raises, the channel is closed: the message is lost, and the supervisor replaces
        the child and repeats its work. The event loop alone would close the socket without a word.
        """
        try:
            self._buffer += data
            self._pass_messages()
        except Exception as error:  # any fault of the receiver, a want of memory among them
            self.error = error
            _log.exception("a message of a child process could not be handled")
            self._is_closing = True
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the socket is closed, by either side."""
        self.error = self.error or exc
        self.closed.set()

    def _pass_messages(self) -> None:
        start = 0
        while not self._is_closing and len(self._buffer) - start >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._buffer, start)
            end = start + _LENGTH.size + size
            if len(self._buffer) < end:
                break
            self._on_message(pickle.loads(memoryview(self._buffer)[start + _LENGTH.size : end]))
            start = end
        del self._buffer[:start]


class BlockingChannel:
    """The child's end of a socket pair."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def receive(self) -> Any:
        """Wait for the next message.

        Raises:
            EOFError: the server has closed its end.
        """
        (size,) = _LENGTH.unpack(self._read(_LENGTH.size))
        return pickle.loads(self._read(size))

    def send(self, message: object) -> None:
        """Send a message; block while the socket is full."""
        self._end.sendall(_frame(message))

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            count = self._end.recv_into(view)
            if not count:
                raise EOFError
            view = view[count:]
        return data


def _frame(message: object) -> bytes:
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body
