"""Messages between the front and its children: length-prefixed pickles over a socket pair."""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from collections.abc import Callable
from typing import Any, cast

_LENGTH = struct.Struct("<I")


class Channel(asyncio.Protocol):
    """The front's end: never blocks the event loop, calls ``received`` a message at a time."""

    def __init__(self, received: Callable[[Any], None], closed: Callable[[], None]) -> None:
        self._received = received
        self._closed = closed
        self._buffer = bytearray()
        self._transport: asyncio.WriteTransport | None = None
        self._unsent: list[bytes] = []

    async def open(self, end: socket.socket) -> None:
        """Take over one end of a socket pair."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, sock=end)

    def send(self, message: object) -> None:
        """Queue a message; the transport keeps what the other side has not read yet."""
        frame = _frame(message)
        if self._transport is None:
            self._unsent.append(frame)
        else:
            self._transport.write(frame)

    def close(self) -> None:
        """Hang up: the other side reads an end of file after what was sent."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's are not of the class
        for frame in self._unsent:
            self._transport.write(frame)
        self._unsent.clear()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._buffer, start)
            end = start + _LENGTH.size + size
            if len(self._buffer) < end:
                break
            self._received(pickle.loads(memoryview(self._buffer)[start + _LENGTH.size : end]))
            start = end
        del self._buffer[:start]

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed()


class BlockingChannel:
    """The child's end."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def receive(self) -> Any:
        """Wait for the next message; EOFError once the front has hung up."""
        (size,) = _LENGTH.unpack(self._read(_LENGTH.size))
        return pickle.loads(self._read(size))

    def send(self, message: object) -> None:
        """Send a message, waiting for room."""
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
