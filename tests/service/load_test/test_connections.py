"""HTTP connections of the load generator, against servers that send given bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from elmo_serve.load_test.connections import Connections, LostError
from tests.support.servers import free_port

WHOLE = b"HTTP/1.1 200 OK\r\nX-Some: Thing\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n3\r\nays\r\n0\r\n\r\n"
CLOSING = b"HTTP/1.1 503 No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
CUT = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"


@dataclass(slots=True)
class Bytes:
    """A server that answers each request with the next of some bytes; an empty one hangs up."""

    responses: Sequence[bytes]
    url: str = ""
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))


@asynccontextmanager
async def serving(*responses: bytes, is_open: bool = True) -> AsyncIterator[Bytes]:
    found = Bytes(responses)
    left = iter(responses)
    if is_open:
        found.gate.set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
                await reader.readexactly(length)
                found.heads.append(head)
                found.arrived.release()
                await found.gate.wait()
                response = next(left)
                writer.write(response)
                if response in (b"", CUT, CLOSING):
                    break
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()
            await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.append(asyncio.create_task(serve(reader, writer)))

    handlers: list[asyncio.Task[None]] = []
    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield found
    await asyncio.gather(*handlers)


async def test_bodies_with_a_length_and_in_chunks_arrive_over_one_connection() -> None:
    async with serving(WHOLE, CHUNKED) as server:
        connections = Connections(server.url + "/under/", 4, {"Authorization": "Bearer k"})
        first = await connections.post("/embed", b"{}", {"Accept": "x/y"})
        second = await connections.post("/embed", b"{}", {})
        await connections.close()

    assert (first.status, first.headers["x-some"], first.body) == (200, "Thing", b"ok")
    assert second.body == b"okays"
    assert server.connections == 1
    assert server.heads[0].startswith(b"POST /under/embed HTTP/1.1\r\n")
    assert b"bearer k" in server.heads[1].lower() and b"x/y" in server.heads[0]


async def test_a_closed_connection_is_not_used_again() -> None:
    async with serving(CLOSING, WHOLE) as server:
        connections = Connections(server.url, 4)
        refused = await connections.post("/embed", b"{}", {})
        answered = await connections.post("/embed", b"{}", {})
        await connections.close()

    assert (refused.status, answered.status) == (503, 200)
    assert server.connections == 2


@pytest.mark.parametrize("response", [b"", CUT, b"nonsense\r\n\r\n"])
async def test_a_request_without_a_whole_response_is_lost(response: bytes) -> None:
    async with serving(response) as server:
        connections = Connections(server.url, 4)
        with pytest.raises(LostError, match=r".+"):
            await connections.post("/embed", b"{}", {})
        await connections.close()


async def test_an_address_where_nothing_listens_is_lost() -> None:
    connections = Connections(f"http://127.0.0.1:{free_port()}", 4)

    with pytest.raises(LostError, match=r"refused|Connect"):
        await connections.post("/embed", b"{}", {})


async def test_requests_beyond_the_most_connections_wait() -> None:
    async with serving(WHOLE, WHOLE, is_open=False) as server:
        connections = Connections(server.url, 1)
        both = [asyncio.create_task(connections.post("/embed", b"{}", {})) for _ in range(2)]
        await server.arrived.acquire()
        assert len(server.heads) == 1
        server.gate.set()
        await asyncio.gather(*both)
        await connections.close()

    assert server.connections == 1
