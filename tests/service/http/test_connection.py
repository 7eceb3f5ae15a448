"""The wrapper around uvicorn's h11 protocol, and the interfaces of uvicorn that it stands on."""

import asyncio
import socket
import tomllib
from pathlib import Path

import h11
import pytest
import uvicorn

from elmo_serve.http.connection import ConnectionFactory, Http11, LimitedConnection, connection_of

ROOT = Path(__file__).parents[3]


def factory_of(client_seconds: float = 1.0) -> ConnectionFactory:
    return ConnectionFactory(10, client_seconds, lambda status: None)


async def test_the_factory_is_kept_as_it_is_by_the_configuration() -> None:
    factory = factory_of()

    async def app(scope: object, receive: object, send: object) -> None: ...

    config = uvicorn.Config(app, http=factory, log_config=None)  # type: ignore[arg-type]  # not a class
    config.load()

    assert config.http_protocol_class is factory  # type: ignore[comparison-overlap]  # likewise


def test_the_version_of_uvicorn_has_an_upper_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (bound,) = [each for each in project["dependencies"] if each.startswith("uvicorn")]

    assert "<" in bound


def test_an_application_without_the_wrapper_has_a_connection_that_ignores_everything() -> None:
    connection = connection_of({"type": "http"})

    connection.request_started()
    connection.mark_body_unread()
    connection.request_ended()
    assert not connection.is_surplus


async def test_one_turn_reads_a_bounded_part_of_a_connection() -> None:
    """Many clients that send large bodies would hold each turn of the event loop for a second."""
    factory = factory_of()
    connection = LimitedConnection(factory)

    assert len(connection.get_buffer(1 << 20)) == 1 << 16


class NoMemory:
    """A parser that finds no memory for what it is given, in a state of h11."""

    def __init__(self, state: object) -> None:
        self.conn = self
        self.our_state = state

    refuse = Http11.refuse

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None: ...
    def data_received(self, data: bytes) -> None:
        raise MemoryError


@pytest.mark.parametrize(
    ("state", "answered"), [(h11.SEND_RESPONSE, True), (h11.IDLE, True), (h11.SEND_BODY, False)]
)
async def test_bytes_without_memory_are_answered_503(state: object, answered: bool) -> None:
    """Once a response has begun, the connection is cut instead."""
    factory = factory_of(60.0)
    loop = asyncio.get_running_loop()
    end, client = socket.socketpair()

    def make() -> LimitedConnection:
        connection = LimitedConnection(factory)
        connection.protocol = NoMemory(state)  # type: ignore[assignment]  # as much as is needed
        return connection

    await loop.create_connection(make, sock=end)
    reader, writer = await asyncio.open_connection(sock=client)
    writer.write(b"POST /embed HTTP/1.1\r\n")

    try:
        found = await reader.read()
    except ConnectionResetError:
        found = b""
    head, _, body = found.partition(b"\r\n\r\n")
    if answered:
        assert head.startswith(b"HTTP/1.1 503 ") and b"retry-after: 1" in head
        assert b"connection: close" in head and b"short of memory" in body
        assert f"content-length: {len(body)}".encode() in head
    else:
        assert found == b""
    writer.close()
