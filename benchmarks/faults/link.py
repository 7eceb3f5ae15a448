"""A TCP proxy before one server, whose directions can stall and whose connections can break.

link = Link(port)
link.stall("to server", True)
link.cut()
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

DIRECTIONS = ("to server", "to client")

_PIECE = 1 << 18  # bytes read at once


class Link:
    """Listens on `port` and forwards to `target`, in a thread of its own."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._flows = {direction: asyncio.Event() for direction in DIRECTIONS}
        self._closing = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self._started.wait()
        for direction in DIRECTIONS:
            self.stall(direction, False)

    def close(self) -> None:
        """Break all connections, and end the thread."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def stall(self, direction: str, is_stalled: bool) -> None:
        """Forward nothing in a direction, or go on."""
        flow = self._flows[direction]
        self._loop.call_soon_threadsafe(flow.clear if is_stalled else flow.set)

    def cut(self) -> None:
        """Break all connections."""
        self._loop.call_soon_threadsafe(self._cut)

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._forward, "127.0.0.1", 0, backlog=1_024)
        async with server:
            self.port = server.sockets[0].getsockname()[1]
            self._started.set()
            await self._closing.wait()
            server.close()
            for _ in range(3):  # a connection that was just accepted has its `_forward` then
                await asyncio.sleep(0)
            self._cut()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._kept(writer), contextlib.suppress(OSError):
            far, to_server = await asyncio.open_connection("127.0.0.1", self._target)
            with self._kept(to_server):
                pumps = {
                    asyncio.create_task(self._pump(reader, to_server, "to server")),
                    asyncio.create_task(self._pump(far, writer, "to client")),
                }
                await asyncio.wait(pumps)

    @contextlib.contextmanager
    def _kept(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        self._writers.add(writer)
        try:
            yield
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str
    ) -> None:
        """Forward one direction to its end, and then close that direction alone."""
        with contextlib.suppress(OSError):
            while piece := await reader.read(_PIECE):
                await self._flows[direction].wait()
                writer.write(piece)
                await writer.drain()
        if writer.can_write_eof() and not writer.is_closing():
            with contextlib.suppress(OSError):
                writer.write_eof()
