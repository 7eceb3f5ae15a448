"""Writes of one turn of the event loop leave together, and nothing is lost or reordered."""

import asyncio
import socket

import pytest

from elmo_serve.http.connection import CoalescingTransport


class Recorder(asyncio.Transport):
    """A transport that keeps what is written to it, one entry a call."""

    def __init__(self) -> None:
        super().__init__({"socket": "a socket"})
        self.calls: list[bytes] = []
        self.closed = False

    def writelines(self, parts: object) -> None:
        assert isinstance(parts, list)
        self.calls.append(b"".join(parts))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def get_write_buffer_size(self) -> int:
        return 7


@pytest.fixture
async def pair() -> tuple[Recorder, CoalescingTransport]:
    recorder = Recorder()
    return recorder, CoalescingTransport(recorder, asyncio.get_running_loop())


async def test_writes_of_one_turn_are_one_call(pair: tuple[Recorder, CoalescingTransport]) -> None:
    recorder, transport = pair
    for part in (b"head", b"", b"body"):
        transport.write(part)

    assert recorder.calls == [] and transport.get_write_buffer_size() == 8 + 7
    await asyncio.sleep(0)
    assert recorder.calls == [b"headbody"] and transport.get_write_buffer_size() == 7


async def test_many_bytes_are_sent_at_once(pair: tuple[Recorder, CoalescingTransport]) -> None:
    recorder, transport = pair
    large = memoryview(bytes(1 << 20))
    transport.write(b"head")
    transport.write(large)  # type: ignore[arg-type]

    assert recorder.calls == [b"head" + bytes(large)]
    await asyncio.sleep(0)
    assert len(recorder.calls) == 1


async def test_close_sends_first(pair: tuple[Recorder, CoalescingTransport]) -> None:
    recorder, transport = pair
    transport.write(b"last")
    transport.close()

    assert recorder.calls == [b"last"] and recorder.closed


async def test_bytes_for_a_connection_that_is_closed_are_dropped(
    pair: tuple[Recorder, CoalescingTransport],
) -> None:
    recorder, transport = pair
    transport.write(b"late")
    recorder.closed = True
    await asyncio.sleep(0)

    assert recorder.calls == []


async def test_everything_else_is_that_of_the_transport_inside(
    pair: tuple[Recorder, CoalescingTransport],
) -> None:
    _, transport = pair

    assert transport.get_extra_info("socket") == "a socket"
    assert transport.is_closing() is False


async def test_bytes_in_the_send_buffer_of_the_kernel_are_unread() -> None:
    near, far = socket.socketpair()
    with far:
        transport, _ = await asyncio.get_running_loop().create_connection(
            asyncio.Protocol, sock=near
        )
        coalescing = CoalescingTransport(transport, asyncio.get_running_loop())
        coalescing.write(b"a" * 100)
        coalescing.flush()
        assert transport.get_write_buffer_size() == 0
        assert coalescing.unread_bytes() > 0

        assert len(far.recv(100)) == 100
        assert coalescing.unread_bytes() == 0
        transport.close()
