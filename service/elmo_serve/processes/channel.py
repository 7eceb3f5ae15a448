"""A channel of pickled messages between the server and a child process: a socket pair."""

from __future__ import annotations

import asyncio
import logging
import pickle
import select
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from elmo_serve.processes.arena import ArenaMap, Block, BlockName, Bytes
from elmo_serve.processes.heartbeat import Heartbeat

_LENGTH: Final = struct.Struct("<I")

_READ_BYTES: Final = 1 << 18
"""Most bytes of a child that are read in one turn of the event loop."""

_log = logging.getLogger("elmo_serve.processes")


class Channel:
    """The server's end. It never blocks the event loop, and sends at once if the socket has room.

    uvloop's transports send at the end of a turn of the loop, after the answers of a batch: the
    worker would be idle until then.

    Attributes:
        closed: set when the channel is closed, from either side.
        error: why it was closed from this side: `on_message` raised. None otherwise.
    """

    def __init__(self, on_message: Callable[[Any], None]) -> None:
        self.closed = asyncio.Event()
        self.error: Exception | None = None
        self._on_message = on_message
        self._loop = asyncio.get_running_loop()
        self._end: socket.socket | None = None
        self._chunk = memoryview(bytearray(_READ_BYTES))
        self._received = bytearray()
        self._unsent: deque[memoryview] = deque()
        self._waits_for_room = False
        self._is_closing = False

    def open(self, end: socket.socket) -> None:
        """Take over one end of a socket pair, and send the messages that wait."""
        end.setblocking(False)
        self._end = end
        if not self._is_closing:  # a reader would keep the end open
            self._loop.add_reader(end, self._read)
        self._flush()

    def send(self, message: object) -> None:
        """Queue a message."""
        self._unsent.append(memoryview(_frame(message)))
        if len(self._unsent) == 1:
            self._flush()

    def close(self) -> None:
        """Close this end. The child reads an end of file after the messages that were sent."""
        self._is_closing = True
        if self._end is not None:
            self._loop.remove_reader(self._end)
            self._flush()

    def _flush(self) -> None:
        """Send messages until the socket is full."""
        end = self._end
        if end is None:
            return
        while self._unsent:
            data = self._unsent.popleft()
            try:
                count = end.send(data)
            except BlockingIOError:
                count = 0
            except OSError:  # the child has ended, which `_read` finds as well
                self._unsent.clear()
                break
            if count < len(data):
                self._unsent.appendleft(data[count:])
                if not self._waits_for_room:
                    self._waits_for_room = True
                    self._loop.add_writer(end, self._flush)
                return
        if self._waits_for_room:
            self._waits_for_room = False
            self._loop.remove_writer(end)
        if self._is_closing:
            self._end = None
            end.close()
            self.closed.set()

    def _read(self) -> None:
        """Take bytes, and pass each message that is complete to `on_message`.

        When that raises, the channel is closed: the message is lost, and the slot replaces the
        child and repeats its work. The event loop alone would go on without a word.
        """
        if self._end is None:  # closed in this turn of the loop, after the socket was polled
            return
        try:
            count = self._end.recv_into(self._chunk)
        except BlockingIOError:
            return
        except ConnectionError:  # the child has ended without reading all messages
            count = 0
        try:
            self._received += self._chunk[:count]
            self._pass_messages()
        except Exception as error:  # any fault of the receiver, a lack of memory among them
            self.error = error
            _log.exception("a message of a child process could not be handled")
            count = 0
        if not count:
            self._unsent.clear()
            self.close()

    def _pass_messages(self) -> None:
        start = 0
        while not self._is_closing and len(self._received) - start >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._received, start)
            end = start + _LENGTH.size + size
            if len(self._received) < end:
                break
            self._on_message(pickle.loads(memoryview(self._received)[start + _LENGTH.size : end]))
            start = end
        del self._received[:start]


class Parent:
    """The child's end, its heartbeat, and its view of the shared memory. It blocks."""

    def __init__(self, end: socket.socket, arena: ArenaMap) -> None:
        self.heart = Heartbeat(self.send)
        self._end = end
        self._arena = arena

    def receive(self) -> Any:
        """Wait for the next message.

        Raises:
            EOFError: the server has closed the channel.
        """
        (size,) = _LENGTH.unpack(self._read(_LENGTH.size))
        return pickle.loads(self._read(size))

    def has_message(self) -> bool:
        """Tell whether `receive` has something to read. Thread-safe, and takes a microsecond."""
        poll = select.poll()  # of this call alone: one poll object serves one thread
        poll.register(self._end, select.POLLIN)
        return bool(poll.poll(0))

    def send(self, message: object) -> None:
        """Send a message to the server; block while the socket is full."""
        self._end.sendall(_frame(message))

    def memory(self, block: Block | BlockName) -> Bytes:
        """Return the bytes of a block that a message has named."""
        return self._arena.view(block)

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
