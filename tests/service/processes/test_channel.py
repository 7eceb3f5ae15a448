"""Messages arrive whole and in order in both directions, and nobody blocks the event loop."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from elmo_serve.processes.arena import Arena
from elmo_serve.processes.channel import Channel, Parent

_LOST_SECONDS = 300.0
"""A message that is lost fails its test instead of hanging it."""


class Pair:
    """The two ends of a channel, and the messages that the server's end has passed on."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.end, child_end = socket.socketpair()
        self.channel = Channel(self.messages.put_nowait)
        self.child_end = child_end
        self.child = Parent(child_end, Arena(1 << 20))

    def open(self) -> None:
        self.channel.open(self.end)

    async def receive(self) -> Any:
        """Return the next message at the child's end."""
        self.child_end.settimeout(_LOST_SECONDS)
        try:
            return await asyncio.to_thread(self.child.receive)
        finally:
            self.child_end.settimeout(None)

    async def close(self) -> None:
        self.channel.close()
        await self.channel.closed.wait()
        self.child_end.close()


async def test_a_child_can_tell_whether_there_is_a_message() -> None:
    pair = Pair()
    assert not pair.child.has_message()
    pair.open()
    pair.channel.send("one")
    assert pair.child.has_message()
    await pair.receive()
    assert not pair.child.has_message()
    await pair.close()


async def test_messages_arrive_in_order_in_both_directions() -> None:
    pair = Pair()
    pair.open()
    for number in range(100):
        pair.channel.send({"number": number})
        pair.child.send([number] * 100)

    assert [(await pair.receive())["number"] for _ in range(100)] == [*range(100)]
    assert [(await pair.messages.get())[0] for _ in range(100)] == [*range(100)]
    await pair.close()


async def test_a_message_that_arrives_byte_by_byte_is_passed_on_once() -> None:
    pair, other = Pair(), Pair()
    pair.open()
    other.child.send("whole")
    frame = other.end.recv(1_000)
    for index in range(len(frame)):
        pair.child_end.send(frame[index : index + 1])

    assert await pair.messages.get() == "whole"
    assert pair.messages.empty()
    await pair.close()
    for end in (other.end, other.child_end):
        end.close()


async def test_a_large_message_does_not_block_the_sender() -> None:
    pair = Pair()
    pair.open()
    large = bytes(1 << 24)
    pair.channel.send(large)

    assert await pair.receive() == large
    await pair.close()


async def test_the_child_reads_an_end_of_file_after_the_last_message() -> None:
    pair = Pair()
    pair.open()
    pair.channel.send("last")
    pair.channel.close()

    assert await pair.receive() == "last"
    with pytest.raises(EOFError):
        pair.child.receive()
    await pair.close()


@pytest.mark.parametrize("make_loop", [asyncio.SelectorEventLoop, uvloop.new_event_loop])
def test_a_channel_that_is_closed_before_it_is_open_closes_at_once(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """A reader that stays would keep the end open, or take the place of the next one."""

    async def opened_late() -> bool:
        pair = Pair()
        pair.channel.close()
        descriptor = pair.end.fileno()
        pair.open()
        await pair.channel.closed.wait()
        with pair.child_end, pytest.raises(EOFError):
            pair.child_end.settimeout(_LOST_SECONDS)
            pair.child.receive()
        return asyncio.get_running_loop().remove_reader(descriptor)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert not runner.run(opened_late())


async def test_a_fault_in_the_handler_closes_the_channel_and_is_kept() -> None:
    handled: list[str] = []

    def fail(message: str) -> None:
        handled.append(message)
        raise MemoryError

    pair = Pair()
    pair.channel = Channel(fail)
    pair.open()
    pair.child.send("first")
    await pair.channel.closed.wait()

    assert handled == ["first"]
    assert isinstance(pair.channel.error, MemoryError)
    with pytest.raises(EOFError):
        pair.child.receive()
    pair.child_end.close()
