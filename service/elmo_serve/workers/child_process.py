"""A spawned process at the end of a channel, with segments of shared memory passed to it."""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import multiprocessing
import signal
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from multiprocessing.context import SpawnProcess
from typing import Any

from elmo_serve.workers.channel import BlockingChannel, Channel
from elmo_serve.workers.shared_memory import Segment, SegmentHandle, SharedMemoryPool, map_segment

_EXIT_GRACE_SECONDS = 5.0


class ChildProcess:
    """Runs ``main(parent, *arguments)`` in a process of its own.

    A descriptor travels on a socket of its own, with the segment's id. It may come after the first
    message that names the segment: a socket holds few descriptors, and the front never waits.
    """

    def __init__(
        self,
        name: str,
        main: Callable[..., None],
        arguments: tuple[Any, ...],
        segments: SharedMemoryPool,
        received: Callable[[Any], None],
        ended: Callable[[str], None],
    ) -> None:
        self._segments = segments
        self._known: set[int] = set()
        self._ended = ended
        self._name, self._main, self._arguments = name, main, arguments
        self._descriptors: socket.socket | None = None
        self._unpassed: deque[Segment] = deque()
        self._channel = Channel(received, self._hung_up)
        self._process: SpawnProcess | None = None
        self._finished = asyncio.Event()
        self._opening: asyncio.Task[None] | None = None
        self._is_killed = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pid(self) -> int | None:
        """The process id, once started."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Spawn the process and listen to it; needs a running event loop."""
        self._opening = self._keep(self._run())

    def send(self, message: object, *named: Segment) -> None:
        """Send a message that names these segments."""
        for segment in named:
            if segment.id not in self._known and not self._finished.is_set():
                self._pass(segment)
        self._channel.send((self._forgotten(), message))

    def kill(self) -> None:
        """End the process now; ``ended`` follows when the channel closes."""
        self._is_killed = True  # also one that is just being spawned
        if self._process is not None and self._process.pid is not None:
            self._process.kill()

    async def stop(self) -> None:
        """Hang up, and wait until the process has ended; kill it when it does not."""
        if self._opening is None:
            return
        await self._opening  # a process that is just being spawned would be missed
        self._channel.close()
        try:
            await asyncio.wait_for(self._finished.wait(), _EXIT_GRACE_SECONDS)
        except TimeoutError:
            self.kill()
            await self._finished.wait()

    async def _run(self) -> None:
        ends: list[socket.socket] = []
        try:
            end, child_end = socket.socketpair()
            ends += (end, child_end)
            descriptors, child_descriptors = socket.socketpair()
            ends += (descriptors, child_descriptors)
            self._process = multiprocessing.get_context("spawn").Process(
                target=_child_main,
                args=(child_end, child_descriptors, self._main, self._arguments),
                name=self._name,
                daemon=True,
            )
            # Spawning takes milliseconds of system calls: not on the event loop.
            await asyncio.to_thread(self._process.start)
        except OSError as error:  # no process, no file or no memory left, which may pass
            for each in ends:
                each.close()
            self._finish(f"could not be spawned: {error.strerror}")
            return
        child_end.close()
        child_descriptors.close()
        if self._is_killed:
            self._process.kill()
        descriptors.setblocking(False)
        self._descriptors = descriptors
        self._pass_on()
        await self._channel.open(end)

    def _pass(self, segment: Segment) -> None:
        self._known.add(segment.id)
        self._unpassed.append(segment)
        if len(self._unpassed) == 1 and self._descriptors is not None:
            self._pass_on()

    def _pass_on(self) -> None:
        """Send what the socket has room for; the rest when there is some again."""
        loop = asyncio.get_running_loop()
        assert self._descriptors is not None
        while self._unpassed:
            segment = self._unpassed[0]
            name = segment.id.to_bytes(8, "little")
            try:
                socket.send_fds(self._descriptors, [name], [segment.descriptor])
            except BlockingIOError:
                loop.add_writer(self._descriptors, self._pass_on)
                return
            except OSError:  # a child that has died says so on the channel
                pass
            self._unpassed.popleft()
        loop.remove_writer(self._descriptors)

    def _forgotten(self) -> tuple[int, ...]:
        gone = tuple(i for i in self._known if not self._segments.is_alive(i))
        self._known.difference_update(gone)
        return gone

    def _hung_up(self) -> None:
        self._keep(self._bury())

    async def _bury(self) -> None:
        assert self._process is not None
        await asyncio.to_thread(self._process.join, _EXIT_GRACE_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            await asyncio.to_thread(self._process.join)
        self._finish(_epitaph(self._process.exitcode or 0))

    def _finish(self, reason: str) -> None:
        if self._descriptors is not None:
            asyncio.get_running_loop().remove_writer(self._descriptors)
            self._descriptors.close()
        self._unpassed.clear()
        self._finished.set()
        self._ended(reason)

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the loop itself holds a task only weakly
        task.add_done_callback(self._tasks.discard)
        return task


class Parent:
    """The child's view: messages in order, segments by id."""

    def __init__(self, end: socket.socket, descriptors: socket.socket) -> None:
        self._channel = BlockingChannel(end)
        self._descriptors = descriptors
        self._received: dict[int, int] = {}
        self._mapped: dict[int, mmap.mmap] = {}

    def receive(self) -> Any:
        """Wait for the next message; EOFError once the front has hung up."""
        forgotten, message = self._channel.receive()
        for segment_id in forgotten:
            self._mapped.pop(segment_id, None)
            self._received.pop(segment_id, None)
        return message

    def send(self, message: object) -> None:
        """Answer the front."""
        self._channel.send(message)

    def memory(self, segment: SegmentHandle) -> mmap.mmap:
        """Return the memory behind a segment's name."""
        if segment.id not in self._mapped:
            while segment.id not in self._received:
                data, descriptors, _, _ = socket.recv_fds(self._descriptors, 8, 1)
                if not data:
                    raise EOFError
                self._received[int.from_bytes(data, "little")] = descriptors[0]
            self._mapped[segment.id] = map_segment(self._received.pop(segment.id), segment.size)
        return self._mapped[segment.id]


def _child_main(
    end: socket.socket,
    descriptors: socket.socket,
    main: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    # Ctrl-C and a supervisor's SIGTERM may reach the whole group: the front decides for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        main(Parent(end, descriptors), *arguments)


def _epitaph(code: int) -> str:
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exited with status {code}"
