"""A child process is spawned, shares the arena, and its end is reported once, however it ends."""

import asyncio
import contextlib
import gc
import multiprocessing.popen_spawn_posix  # noqa: F401  # not when files can no longer be opened
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.context import SpawnProcess
from typing import Any

import pytest

from elmo_serve.processes.arena import Arena, Block
from elmo_serve.processes.channel import Parent
from elmo_serve.processes.child import ChildProcess
from tests.support.processes import is_alive
from tests.support.servers import until


def add_up(parent: Parent) -> None:
    """Answer the sum of the first bytes of the blocks that a message names, and write to each."""
    parent.send(os.getpid())
    while True:
        memory = [parent.memory(name) for name in parent.receive()]
        total = sum(int(each[0]) for each in memory)
        for each in memory:
            each[-1] = 7
        parent.send(total)


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


ARENA = Arena(1 << 24)

_LOST_SECONDS = 300.0
"""A message that is lost fails its test instead of hanging it."""


def open_files() -> int:
    """Return the number of descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


class Front:
    """The server's side of a child."""

    def __init__(self, main: Any) -> None:
        self.arena = ARENA
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.ended: asyncio.Queue[str] = asyncio.Queue()
        self.child = ChildProcess("test", main, (), self.arena)

    def start(self) -> None:
        self.child.start(self.messages.put_nowait, self.ended.put_nowait)

    def acquire(self, count: int) -> list[Block]:
        blocks = [self.arena.acquire(2) for _ in range(count)]
        for number, block in enumerate(blocks):
            block.array[0] = number % 7
        return blocks

    async def message(self) -> Any:
        async with asyncio.timeout(_LOST_SECONDS):
            return await self.messages.get()

    async def end(self) -> str:
        return await self.ended.get()


@asynccontextmanager
async def front(main: Any) -> AsyncIterator[Front]:
    made = Front(main)
    made.start()
    try:
        yield made
    finally:
        await made.child.stop()


async def test_memory_is_shared_in_both_directions_and_takes_no_descriptor() -> None:
    async with front(add_up) as f:
        pid = await f.message()
        held, kept = len(os.listdir(f"/proc/{pid}/fd")), open_files()  # noqa: PTH208
        blocks = f.acquire(600)
        f.child.send(blocks)

        assert await f.message() == sum(number % 7 for number in range(600))
        assert all(block.array[-1] == 7 for block in blocks)
        assert len(os.listdir(f"/proc/{pid}/fd")) == held  # noqa: PTH208
        assert open_files() <= kept  # garbage of other tests may have been freed


async def test_a_stopped_child_does_not_block_the_server() -> None:
    async with front(add_up) as f:
        pid = await f.message()
        os.kill(pid, signal.SIGSTOP)
        kept = []
        for _ in range(50):
            kept.append(f.acquire(20))
            f.child.send(kept[-1])
        os.kill(pid, signal.SIGCONT)

        expected = sum(number % 7 for number in range(20))
        assert [await f.message() for _ in range(50)] == [expected] * 50


async def test_a_killed_child_is_reported_once_with_its_signal() -> None:
    async with front(wait) as f:
        await f.message()
        f.child.kill()

        assert await f.end() == "was killed by SIGKILL"
        f.child.send([])  # too late, and harmless
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
        f.child.send([])

        assert await f.message() == 0


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
from elmo_serve.processes.child import ChildProcess
from elmo_serve.processes.arena import Arena
from tests.service.processes.test_child import hang

async def main():
    child = ChildProcess("test", hang, (), Arena())
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
        until(lambda: not is_alive(pid))
