"""A child process behind a channel of pickled messages, with shared memory passed by descriptor."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import multiprocessing
import os
import pickle
import signal
import socket
import struct
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol, cast

import numpy as np

from elmo_serve.workers.shared_memory import (
    Bytes,
    Segment,
    SegmentHandle,
    map_descriptor,
)

_EXIT_GRACE_SECONDS = 5.0
"""Seconds from the end of the channel to SIGKILL; a larger value delays the end of the server."""


_RESEND_SECONDS = 0.05
"""Pause after the kernel has refused a descriptor, for want of memory or because too many are on
their way to processes that are slow to take them."""

_SPAWNING = ThreadPoolExecutor(1, "elmo-spawn")
"""The thread that spawns every process. Its own, so that work for requests, which may hang on a
network file system, delays no replacement. It lives as long as this process: the kernel kills the
children of a thread that ends, see `_end_with_parent`."""

_PR_SET_PDEATHSIG = 1

_LENGTH = struct.Struct("<I")

_log = logging.getLogger("elmo_serve.workers")


class Channel(asyncio.Protocol):
    """The server's end of a socket pair. It never blocks the event loop.

    `error` is why the channel was closed from this side: the socket failed, or `on_message` raised.
    """

    def __init__(self, on_message: Callable[[Any], None]) -> None:
        self.closed = asyncio.Event()
        self.error: Exception | None = None
        self._on_message = on_message
        self._buffer = bytearray()
        self._transport: asyncio.WriteTransport | None = None
        self._is_closing = False
        self._unsent: list[bytes] = []

    async def open(self, end: socket.socket) -> None:
        """Take over one end of a socket pair."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, sock=end)

    def send(self, message: object) -> None:
        """Queue a message. The transport keeps the bytes that the child has not read yet."""
        frame = _frame(message)
        if self._transport is None:
            self._unsent.append(frame)
        else:
            self._transport.write(frame)

    def close(self) -> None:
        """Close this end. The child reads an end of file after the messages that were sent."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the messages that were queued before the channel was open."""
        # uvloop's transports do not derive from asyncio's.
        self._transport = cast(asyncio.WriteTransport, transport)
        for frame in self._unsent:
            self._transport.write(frame)
        self._unsent.clear()
        if self._is_closing:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Pass every message that is complete to `on_message`.

        When that raises, the channel is closed: the message is lost, and the supervisor replaces
        the child and repeats its work. The event loop alone would close the socket without a word.
        """
        try:
            self._buffer += data
            self._pass_messages()
        except Exception as error:  # any fault of the receiver, a want of memory among them
            self.error = error
            _log.exception("a message of a child process could not be handled")
            self._is_closing = True
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the socket is closed, by either side."""
        self.error = self.error or exc
        self.closed.set()

    def _pass_messages(self) -> None:
        start = 0
        while not self._is_closing and len(self._buffer) - start >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._buffer, start)
            end = start + _LENGTH.size + size
            if len(self._buffer) < end:
                break
            self._on_message(pickle.loads(memoryview(self._buffer)[start + _LENGTH.size : end]))
            start = end
        del self._buffer[:start]


class BlockingChannel:
    """The child's end of a socket pair."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def receive(self) -> Any:
        """Wait for the next message.

        Raises:
            EOFError: the server has closed its end.
        """
        (size,) = _LENGTH.unpack(self._read(_LENGTH.size))
        return pickle.loads(self._read(size))

    def send(self, message: object) -> None:
        """Send a message; block while the socket is full."""
        self._end.sendall(_frame(message))

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


class Segments(Protocol):
    """The segments that exist: a `SharedMemoryPool`, for one."""

    def holds(self, segment_id: int, /) -> bool:
        """Tell whether a segment still exists."""


class ChildProcess:
    """Runs `main(parent, *arguments)` in a spawned process.

    A descriptor travels on a second socket, with the segment's id. It may arrive after the first
    message that names the segment, because a socket holds few descriptors and the event loop must
    not wait for room.

    A `niceness` other than 0 is the priority of the process, of its interpreter's start as well.
    """

    def __init__(
        self,
        name: str,
        main: Callable[..., None],
        arguments: tuple[Any, ...],
        segments: Segments,
        niceness: int = 0,
    ) -> None:
        self._name, self._main, self._arguments = name, main, arguments
        self._niceness = niceness
        self._segments = segments
        self._sender = DescriptorSender()
        self._passed: set[int] = set()  # ids of segments whose descriptor the child was sent
        self._process: SpawnProcess | None = None  # from the moment it is spawned
        self._channel: Channel | None = None
        self._is_killed = False
        self._exited = asyncio.Event()
        self._life: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, or None before the process is spawned."""
        return self._process.pid if self._process else None

    def start(self, on_message: Callable[[Any], None], on_exit: Callable[[str], None]) -> None:
        """Spawn the process.

        `on_message` gets each of its messages, and `on_exit` the reason of its end, once. Both are
        called on the event loop.
        """
        self._channel = Channel(on_message)
        self._life = asyncio.get_running_loop().create_task(self._live(self._channel, on_exit))

    def send(self, message: object, *segments: Segment) -> None:
        """Send a message that names these segments."""
        if self._channel is None or self._exited.is_set():
            return
        for segment in segments:
            if segment.id not in self._passed:
                self._passed.add(segment.id)
                self._sender.send(segment)
        self._channel.send((self._freed(), message))

    def kill(self) -> None:
        """Send SIGKILL, also to a process that is just being spawned. `on_exit` follows."""
        self._is_killed = True
        if self._process is not None:
            self._process.kill()

    async def stop(self) -> None:
        """Close the channel and wait until the process has ended; kill it after a grace time."""
        if self._channel is None:
            return
        self._channel.close()
        try:
            await asyncio.wait_for(self._exited.wait(), _EXIT_GRACE_SECONDS)
        except TimeoutError:
            self.kill()
            await self._exited.wait()

    async def _live(self, channel: Channel, on_exit: Callable[[str], None]) -> None:
        """Follow the process from its start to the reason of its end."""
        try:
            process = await self._spawn(channel)
            reason = await _end_of(process, channel)
        except Exception as error:  # the supervisor has to learn of any end: it would wait for ever
            self.kill()
            reason = f"could not be run: {_cause(error)}"
        self._sender.close()
        self._exited.set()
        on_exit(reason)

    async def _spawn(self, channel: Channel) -> SpawnProcess:
        """Start the process and connect to it.

        Raises:
            OSError, RuntimeError, MemoryError: no process, thread, descriptor or memory is left.
        """
        with contextlib.ExitStack() as sockets:
            end, child_end = map(sockets.enter_context, socket.socketpair())
            descriptors, child_descriptors = map(sockets.enter_context, socket.socketpair())
            process = multiprocessing.get_context("spawn").Process(
                target=_child_main,
                args=(child_end, child_descriptors, self._niceness, self._main, self._arguments),
                name=self._name,
                daemon=True,
            )
            # Spawning takes milliseconds of system calls: not on the event loop.
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(_SPAWNING, _start, process, self._niceness)
            self._process = process
            if self._is_killed:
                process.kill()
            await channel.open(end)
            descriptors.setblocking(False)
            self._sender.open(descriptors)
            sockets.pop_all()
        child_end.close()
        child_descriptors.close()
        return process

    def _freed(self) -> tuple[int, ...]:
        """Return the ids that the child knows and the pool has dropped since the last message."""
        gone = tuple(i for i in self._passed if not self._segments.holds(i))
        self._passed.difference_update(gone)
        return gone


class DescriptorSender:
    """Sends file descriptors over a socket, as fast as the other side takes them."""

    def __init__(self) -> None:
        self._unsent: deque[Segment] = deque()
        self._socket: socket.socket | None = None

    def open(self, end: socket.socket) -> None:
        """Take over a socket that does not block, and send what is waiting."""
        self._socket = end
        self._flush(end)

    def send(self, segment: Segment) -> None:
        """Queue the descriptor of a segment."""
        self._unsent.append(segment)
        if len(self._unsent) == 1 and self._socket is not None:
            self._flush(self._socket)

    def close(self) -> None:
        """Close the socket and drop what was not sent."""
        self._unsent.clear()
        if self._socket is not None:
            asyncio.get_running_loop().remove_writer(self._socket)
            self._socket.close()
            self._socket = None

    def _flush(self, end: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while self._unsent and self._socket is end:
            segment = self._unsent[0]
            try:
                socket.send_fds(end, [segment.id.to_bytes(8, "little")], [segment.descriptor])
            except BlockingIOError:
                loop.add_writer(end, self._flush, end)
                return
            except (BrokenPipeError, ConnectionResetError):  # its channel reports that it died
                pass
            except OSError:
                loop.remove_writer(end)
                loop.call_later(_RESEND_SECONDS, self._flush, end)
                return
            self._unsent.popleft()
        loop.remove_writer(end)


class Parent:
    """The child's view of the server: messages in order, shared memory by id."""

    def __init__(self, end: socket.socket, descriptors: socket.socket) -> None:
        self._channel = BlockingChannel(end)
        self._descriptors = descriptors
        self._received: dict[int, int] = {}
        self._mapped: dict[int, Bytes] = {}

    def receive(self) -> Any:
        """Wait for the next message.

        Raises:
            EOFError: the server has closed the channel.
        """
        freed, message = self._channel.receive()
        for segment_id in freed:
            self._mapped.pop(segment_id, None)
            self._received.pop(segment_id, None)
        return message

    def send(self, message: object) -> None:
        """Send a message to the server."""
        self._channel.send(message)

    def memory(self, segment: SegmentHandle | Segment) -> Bytes:
        """Return the bytes of the segment that a message names.

        Raises:
            EOFError: the server has closed the socket of descriptors.
        """
        if segment.id not in self._mapped:
            while segment.id not in self._received:
                data, descriptors, _, _ = socket.recv_fds(self._descriptors, 8, 1)
                if not data:
                    raise EOFError
                self._received[int.from_bytes(data, "little")] = descriptors[0]
            descriptor = self._received.pop(segment.id)
            try:
                memory = map_descriptor(descriptor, segment.size)
            finally:
                os.close(descriptor)
            self._mapped[segment.id] = np.frombuffer(memory, np.uint8)
        return self._mapped[segment.id]


def exit_reason(code: int) -> str:
    """Return how a process ended, from its exit code; a negative one is a signal."""
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with status {code}"


def _start(process: SpawnProcess, niceness: int) -> None:
    process.start()
    if niceness and process.pid is not None:
        with contextlib.suppress(OSError):  # it has ended already
            os.setpriority(os.PRIO_PROCESS, process.pid, niceness)


def _child_main(
    end: socket.socket,
    descriptors: socket.socket,
    niceness: int,
    main: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    _end_with_parent()
    # Ctrl-C and a process manager's SIGTERM may reach the whole group. The server decides when its
    # children end, by closing their channels.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if niceness:  # the server may not have come to it yet
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        main(Parent(end, descriptors), *arguments)


def _end_with_parent() -> None:
    """Let the kernel kill this process when the server's has ended.

    A child reads the end of its channel between two tasks, and a task, or the load of a model, may
    take a minute.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid != os.getppid():  # it ended before
        os.kill(os.getpid(), signal.SIGKILL)


async def _end_of(process: SpawnProcess, channel: Channel) -> str:
    """Wait until the channel is closed and the process has ended; return the reason."""
    await channel.closed.wait()
    try:
        await asyncio.wait_for(_join(process), _EXIT_GRACE_SECONDS)
    except TimeoutError:
        process.kill()
        await _join(process)
    reason = exit_reason(process.exitcode or 0)
    return f"{reason} after {_cause(channel.error)}" if channel.error else reason


async def _join(process: SpawnProcess) -> None:
    """Wait for the end of a process without a thread, which may not be there to be had."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(process.sentinel, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(process.sentinel)
    process.join()


def _cause(error: Exception) -> str:
    """Return an error in a few words: an operating system's own, or the class and the message."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}".removesuffix(": ")
