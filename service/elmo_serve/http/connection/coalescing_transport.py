"""A transport that sends the head of a response and its body in one system call."""

import asyncio
import fcntl
import struct
import termios
from typing import Any, Final

_INT: Final = struct.Struct("i")

_BUFFERED_BYTES: Final = 1 << 16
"""Bytes that are held back until the end of the event loop's turn. More are sent at once: joining
them would copy more than a system call costs."""


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

    def close(self) -> None:
        """Send the bytes that are held back, then close."""
        self.flush()
        self._transport.close()
