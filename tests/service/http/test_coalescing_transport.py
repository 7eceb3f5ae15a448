"""Writes of one turn of the event loop leave together, in order, and none is lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from elmo_serve.http.coalescing_transport import JoinedWrites


class Listening(asyncio.Protocol):
    """The other end: keeps what comes."""

    def __init__(self) -> None:
        self.data = b""
        self.has_come = asyncio.Event()
        self.is_lost = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.has_come.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost.set()


class Counting:
    """A real transport whose calls are counted."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.calls = 0

    def writelines(self, data: list[bytes]) -> None:
        self.calls += 1
        self._transport.writelines(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Counting, JoinedWrites, Listening]]:
    loop = asyncio.get_running_loop()
    listening = Listening()
    server = await loop.create_server(lambda: listening, "127.0.0.1", 0)
    transport, _ = await loop.create_connection(
        asyncio.Protocol, *server.sockets[0].getsockname()[:2]
    )
    counting = Counting(transport)
    try:
        yield counting, JoinedWrites(counting, loop), listening  # type: ignore[arg-type]
    finally:
        transport.close()
        server.close()
        await server.wait_closed()


async def test_a_head_and_its_body_leave_in_one_call() -> None:
    async with connected() as (counting, joined, listening):
        joined.write(b"head")
        joined.write(memoryview(b"body"))
        assert counting.calls == 0
        await asyncio.sleep(0)
        assert counting.calls == 1
        joined.write(b"next")
        joined.close()
        await listening.is_lost.wait()

    assert counting.calls == 2
    assert listening.data == b"headbodynext"


async def test_what_is_written_alone_leaves_by_itself() -> None:
    async with connected() as (_, joined, listening):
        joined.write(b"HTTP/1.1 100 Continue")
        await listening.has_come.wait()

    assert listening.data == b"HTTP/1.1 100 Continue"


async def test_much_is_not_kept() -> None:
    async with connected() as (counting, joined, listening):
        for letter in b"abc":
            joined.write(bytes([letter]) * 100_000)
        assert counting.calls == 3
        joined.close()
        await listening.is_lost.wait()

    assert listening.data == b"a" * 100_000 + b"b" * 100_000 + b"c" * 100_000


async def test_nothing_is_written_to_a_connection_that_has_ended() -> None:
    async with connected() as (counting, joined, _):
        joined.write(b"late")
        counting.abort()
        await asyncio.sleep(0.01)

    assert counting.calls == 0
