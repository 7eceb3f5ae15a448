"""Messages and memory reach a child process, and nothing that it does blocks the event loop."""

import asyncio
import contextlib
import errno
import gc
import multiprocessing.popen_spawn_posix  # noqa: F401  # not when files can no longer be opened
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.context import SpawnProcess
from typing import Any

import numpy as np
import pytest

from elmo_serve.workers.process import Channel, ChildProcess, Parent
from elmo_serve.workers.shared_memory import Bytes, Segment, SharedMemoryPool
from tests.support.processes import is_alive


def add_up(parent: Parent) -> None:
    """Answer the sum of the first bytes of the segments that a message names."""
    parent.send(os.getpid())
    while True:
        names = parent.receive()
        parent.send(sum(int(parent.memory(name)[0]) for name in names))


def give_up(parent: Parent) -> None:
    """End at the first message."""
    parent.receive()
    raise SystemExit(3)


def wait(parent: Parent) -> None:
    """Report the start, and wait."""
    parent.send("up")
    parent.receive()


def hang(parent: Parent) -> None:
    """Report the process id, and read no further message."""
    parent.send(os.getpid())
    time.sleep(600)


class Refusing(socket.socket):
    """A socket whose first message fails as if too many descriptors were on their way."""

    refused = 0

    def sendmsg(self, *arguments: Any) -> int:
        if not self.refused:
            self.refused += 1
            raise OSError(errno.ETOOMANYREFS, "Too many references: cannot splice")
        return super().sendmsg(*arguments)


_LOST_SECONDS = 300.0
"""A message that is lost fails its test instead of hanging it."""


def open_files() -> int:
    """Return the number of descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


class Front:
    """The server's side of a child."""

    def __init__(self, main: Any) -> None:
        self.segments = SharedMemoryPool()
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.ended: asyncio.Queue[str] = asyncio.Queue()
        self.child = ChildProcess("test", main, (), self.segments)

    def start(self) -> None:
        self.child.start(self.messages.put_nowait, self.ended.put_nowait)

    def acquire(self, count: int) -> tuple[list[Segment], list[Bytes]]:
        held = [self.segments.acquire(1) for _ in range(count)]
        for number, (_, array) in enumerate(held):
            array[0] = number % 7
        return [segment for segment, _ in held], [array for _, array in held]

    async def message(self) -> Any:
        async with asyncio.timeout(_LOST_SECONDS):
            return await self.messages.get()

    async def end(self) -> str:
        return await self.ended.get()


@asynccontextmanager
async def front(main: Any) -> AsyncIterator[Front]:
    made = Front(main)
    made.start()
    yield made
    await made.child.stop()


async def test_memory_is_shared_and_the_child_closes_segments_that_the_pool_dropped() -> None:
    async with front(add_up) as f:
        pid = await f.message()
        for _ in range(3):
            segments, arrays = f.acquire(5)
            f.child.send(segments, *segments)
            assert await f.message() == 0 + 1 + 2 + 3 + 4
            del segments, arrays
        held = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208
        assert held < 20


@pytest.mark.parametrize("count", [11, 600])
async def test_one_message_may_name_more_segments_than_a_socket_holds(count: int) -> None:
    async with front(add_up) as f:
        await f.message()
        segments, _arrays = f.acquire(count)
        f.child.send(segments, *segments)

        assert await f.message() == sum(number % 7 for number in range(count))


async def test_a_stopped_child_does_not_block_the_server() -> None:
    async with front(add_up) as f:
        pid = await f.message()
        os.kill(pid, signal.SIGSTOP)
        kept = []
        for _ in range(50):
            segments, arrays = f.acquire(20)
            f.child.send(segments, *segments)
            kept.append(arrays)
        os.kill(pid, signal.SIGCONT)

        expected = sum(number % 7 for number in range(20))
        assert [await f.message() for _ in range(50)] == [expected] * 50


async def test_a_killed_child_is_reported_once_with_its_signal() -> None:
    async with front(wait) as f:
        await f.message()
        f.child.kill()

        assert await f.end() == "was killed by SIGKILL"
        segments, _arrays = f.acquire(1)
        f.child.send(segments, *segments)  # too late, and harmless
        assert f.ended.empty()


async def test_a_child_that_ends_is_reported_with_its_status() -> None:
    async with front(give_up) as f:
        f.child.send("go")

        assert await f.end() == "exited with status 3"


async def test_a_child_that_has_ended_leaves_no_descriptor_behind() -> None:
    """Nor does it take the garbage collector: that of a server runs rarely."""
    kept, counts = [], []
    gc.disable()
    try:
        for _ in range(4):
            async with front(give_up) as f:
                f.child.send("go")
                await f.end()
            kept.append(f)
            counts.append(open_files())
    finally:
        gc.enable()

    assert counts[1:] == counts[:1] * 3  # the first one started Python's resource tracker
    assert [f.child.pid for f in kept] == [None] * 4


async def test_a_child_that_is_killed_while_it_is_spawned_does_not_live() -> None:
    f = Front(add_up)
    f.start()
    f.child.kill()
    await f.child.stop()

    assert await f.end() == "was killed by SIGKILL"


@pytest.mark.faults
async def test_stopping_ends_a_child_that_hangs() -> None:
    f = Front(add_up)
    f.start()
    pid = await f.message()
    os.kill(pid, signal.SIGSTOP)
    await f.child.stop()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_child_ends_by_itself_when_its_channel_is_closed() -> None:
    f = Front(add_up)
    f.start()
    pid = await f.message()
    await f.child.stop()

    assert await f.end() == "exited with status 0"
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        raise AssertionError("it lives")


async def test_a_child_ignores_signals_to_the_whole_group() -> None:
    async with front(add_up) as f:
        pid = await f.message()
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(pid, number)
        segments, arrays = f.acquire(1)
        arrays[0][0] = np.uint8(9)
        f.child.send(segments, *segments)

        assert await f.message() == 9


async def test_signals_to_the_whole_group_do_not_end_a_child_that_is_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C while the model is loaded: the child imports its modules, and has no handler yet."""
    start = SpawnProcess.start

    def start_and_interrupt(process: SpawnProcess) -> None:
        start(process)
        assert process.pid is not None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(process.pid, number)

    monkeypatch.setattr(SpawnProcess, "start", start_and_interrupt)
    async with front(wait) as f:
        assert await f.message() == "up"


async def test_a_process_that_cannot_be_spawned_is_reported() -> None:
    f = Front(add_up)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # what is open stays so
    try:
        f.start()
        reason = await f.end()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert reason == "could not be run: Too many open files"
    await f.child.stop()


async def test_a_fault_in_the_handler_of_a_message_is_the_reason_of_the_end() -> None:
    def fail(message: object) -> None:
        raise OSError(24, "Too many open files")

    f = Front(add_up)
    f.child.start(fail, f.ended.put_nowait)

    assert await f.end() == "exited with status 0 after Too many open files"


ORPHAN = """
import asyncio
from elmo_serve.workers.process import ChildProcess
from elmo_serve.workers.shared_memory import SharedMemoryPool
from tests.service.workers.test_process import hang

async def main():
    child = ChildProcess("test", hang, (), SharedMemoryPool())
    child.start(lambda pid: print(pid, flush=True), print)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_child_that_is_busy_ends_with_a_server_that_is_killed() -> None:
    """It would read the end of its channel after its task alone: a model loads for a minute."""
    with subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        server.kill()
        server.wait()
        deadline = time.monotonic() + 60
        while is_alive(pid):
            assert time.monotonic() < deadline, "it lives on"
            time.sleep(0.01)


class Pair:
    """The two ends of a channel, and the messages that the server's end has passed on."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.end, child_end = socket.socketpair()
        self.channel = Channel(self.messages.put_nowait)
        self.child_end = child_end
        self.child = Parent(child_end)

    def open(self) -> None:
        self.channel.open(self.end)

    def send(self, message: object, *segments: Segment) -> None:
        """Send a message as a `ChildProcess` does."""
        passed = tuple(segment.id for segment in segments)
        self.channel.send((passed, (), message), segments)

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
    pair.send("one")
    assert pair.child.has_message()
    await pair.receive()
    assert not pair.child.has_message()
    await pair.close()


async def test_messages_arrive_in_order_in_both_directions() -> None:
    pair = Pair()
    pair.open()
    for number in range(100):
        pair.send({"number": number})
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


async def test_a_descriptor_that_the_kernel_refuses_is_sent_again() -> None:
    """It was dropped as if the child had died, which waited for it until it was killed."""
    pair, segments = Pair(), SharedMemoryPool()
    refusing = Refusing(fileno=pair.end.detach())
    pair.channel.open(refusing)
    (one, first), (two, second) = segments.acquire(1), segments.acquire(1)
    first[0], second[0] = 1, 2
    pair.send(one, one)
    pair.send(two, two)
    assert refusing.refused == 1
    received = [pair.child.memory(await pair.receive())[0] for _ in range(2)]

    assert received == [1, 2]
    await pair.close()


async def test_descriptors_that_are_never_mapped_are_closed_with_their_segment() -> None:
    pair, segments = Pair(), SharedMemoryPool()
    pair.open()
    held = [segments.acquire(1) for _ in range(20)]
    ids = tuple(segment.id for segment, _ in held)
    before = open_files()
    pair.send("unread", *(segment for segment, _ in held))
    await pair.receive()
    assert open_files() == before + 20
    pair.channel.send(((), ids, "freed"))
    await pair.receive()

    assert open_files() == before
    await pair.close()


async def test_a_segment_that_is_dropped_while_its_message_waits_reaches_the_child() -> None:
    """Another file may have its number by then."""
    pair, segments = Pair(), SharedMemoryPool()
    segment, array = segments.acquire(1)
    array[0] = 7
    pair.send(segment, segment)
    del segment, array, segments
    pair.open()

    assert pair.child.memory(await pair.receive())[0] == 7
    await pair.close()


async def test_messages_sent_before_the_channel_is_open_are_kept() -> None:
    pair = Pair()
    pair.send("early")
    pair.open()

    assert await pair.receive() == "early"
    await pair.close()


async def test_a_large_message_does_not_block_the_sender() -> None:
    pair = Pair()
    pair.open()
    large = bytes(1 << 24)
    pair.send(large)

    assert await pair.receive() == large
    await pair.close()


async def test_the_child_reads_an_end_of_file_after_the_last_message() -> None:
    pair = Pair()
    pair.open()
    pair.send("last")
    pair.channel.close()

    assert await pair.receive() == "last"
    with pytest.raises(EOFError):
        pair.child.receive()
    await pair.close()


async def test_a_channel_that_is_closed_before_it_is_open_closes_at_once() -> None:
    pair = Pair()
    pair.channel.close()
    pair.open()
    await pair.channel.closed.wait()

    with pytest.raises(EOFError):
        pair.child.receive()
    pair.child_end.close()


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
