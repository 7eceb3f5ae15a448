"""A child process behind a channel of pickled messages, with shared memory passed by descriptor."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import multiprocessing
import os
import pickle
import select
import signal
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol

import numpy as np

from elmo_serve import logs
from elmo_serve.workers.shared_memory import Bytes, Segment, SegmentHandle, map_descriptor

_EXIT_GRACE_SECONDS = 5.0
"""Seconds from the end of the channel to SIGKILL; a larger value delays the end of the server."""


_RESEND_SECONDS = 0.05
"""Pause after the kernel has refused a descriptor, because it is out of memory or because too many
are on their way to processes that are slow to take them."""

_SPAWNING = ThreadPoolExecutor(1, "elmo-spawn")
"""The thread that spawns every process. Its own, so that work for requests, which may hang on a
network file system, delays no replacement. It lives as long as this process: the kernel kills the
children of a thread that ends, see `_end_with_parent`."""

_OF_THE_GROUP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that a terminal or a process manager sends to a server and its children alike."""

_PR_SET_PDEATHSIG = 1

_LENGTH = struct.Struct("<I")
_INT = struct.Struct("i")
_EMPTY_FRAME = _LENGTH.pack(0)

_READ_BYTES = 1 << 18
"""Most bytes of a child that are read in one turn of the event loop."""

_DESCRIPTORS = 253
"""Most descriptors that Linux passes at a time (`SCM_MAX_FD`)."""

_log = logging.getLogger("elmo_serve.workers")


class Channel:
    """The server's end of a socket pair. It never blocks the event loop.

    A message may pass the descriptors of segments. They arrive before it: they are sent with its
    first byte, or with empty frames ahead of it, because the kernel takes few at a time.

    `error` is why the channel was closed from this side: the socket failed, or `on_message` raised.
    """

    def __init__(self, on_message: Callable[[Any], None]) -> None:
        self.closed = asyncio.Event()
        self.error: Exception | None = None
        self._on_message = on_message
        self._loop = asyncio.get_running_loop()
        self._end: socket.socket | None = None
        self._chunk = memoryview(bytearray(_READ_BYTES))
        self._received = bytearray()
        self._unsent: deque[tuple[memoryview, Sequence[Segment]]] = deque()
        self._waits_for_room = False
        self._is_closing = False

    def open(self, end: socket.socket) -> None:
        """Take over one end of a socket pair, and send what is waiting."""
        end.setblocking(False)
        self._end = end
        self._loop.add_reader(end, self._read)
        self._flush()

    def send(self, message: object, segments: Sequence[Segment] = ()) -> None:
        """Queue a message behind the descriptors of these segments."""
        is_idle = not self._unsent
        while len(segments) > _DESCRIPTORS:
            self._unsent.append((memoryview(_EMPTY_FRAME), segments[:_DESCRIPTORS]))
            segments = segments[_DESCRIPTORS:]
        self._unsent.append((memoryview(_frame(message)), segments))
        if is_idle:
            self._flush()

    def close(self) -> None:
        """Close this end. The child reads an end of file after the messages that were sent."""
        self._is_closing = True
        if self._end is not None:
            self._loop.remove_reader(self._end)
            self._flush()

    def _abort(self) -> None:
        """Close this end now."""
        self._unsent.clear()
        self.close()

    def _flush(self) -> None:
        """Send what is waiting, until the socket is full."""
        end = self._end
        while self._unsent and end is not None:
            data, segments = self._unsent[0]
            try:
                count = _send(end, data, segments)
            except BlockingIOError:
                if not self._waits_for_room:
                    self._waits_for_room = True
                    self._loop.add_writer(end, self._flush)
                return
            except ConnectionError:  # the child has ended, which `_read` finds as well
                self._unsent.clear()
            except OSError:
                self._stop_waiting(end)
                self._loop.call_later(_RESEND_SECONDS, self._flush)
                return
            else:
                self._unsent.popleft()
                if count < len(data):
                    self._unsent.appendleft((data[count:], ()))
        if end is not None:
            self._stop_waiting(end)
            if self._is_closing:
                self._loop.remove_reader(end)
                end.close()
                self._end = None
                self.closed.set()

    def _stop_waiting(self, end: socket.socket) -> None:
        if self._waits_for_room:
            self._waits_for_room = False
            self._loop.remove_writer(end)

    def _read(self) -> None:
        """Take bytes, and pass every message that is complete to `on_message`.

        When that raises, the channel is closed: the message is lost, and the slot replaces the
        child and repeats its work. The event loop alone would go on without a word.
        """
        assert self._end is not None
        try:
            count = self._end.recv_into(self._chunk)
        except BlockingIOError:
            return
        except ConnectionError:  # the child has ended without reading all messages
            count = 0
        if not count:
            self._abort()
            return
        try:
            self._received += self._chunk[:count]
            self._pass_messages()
        except Exception as error:  # any fault of the receiver, a lack of memory among them
            self.error = error
            _log.exception("a message of a child process could not be handled")
            self._abort()

    def _pass_messages(self) -> None:
        start = 0
        while not self._is_closing and len(self._received) - start >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._received, start)
            end = start + _LENGTH.size + size
            if len(self._received) < end:
                break
            self._on_message(pickle.loads(memoryview(self._received)[start + _LENGTH.size : end]))
            start = end
        del self._received[:start]


def _send(end: socket.socket, data: memoryview, segments: Sequence[Segment]) -> int:
    """Send some bytes, and the descriptors with the first of them; return the number of bytes."""
    if not segments:
        return end.send(data)
    return socket.send_fds(end, [data], [segment.descriptor for segment in segments])


def _frame(message: object) -> bytes:
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


class Segments(Protocol):
    """The segments that exist: a `SharedMemoryPool`, for one."""

    def holds(self, segment_id: int, /) -> bool:
        """Tell whether a segment still exists."""


class ChildProcess:
    """Runs `main(parent, *arguments)` in a spawned process.

    The descriptor of a segment is passed with the first message that names it. The child cannot
    open it under the `/proc` of the server in every place: not where the server has dropped root's
    rights by itself, and not in every container.
    """

    def __init__(
        self,
        name: str,
        main: Callable[..., None],
        arguments: tuple[Any, ...],
        segments: Segments,
    ) -> None:
        self._name, self._main, self._arguments = name, main, arguments
        self._segments = segments
        self._passed: set[int] = set()  # ids of segments whose descriptor the child was sent
        self._process: SpawnProcess | None = None  # from the moment it is spawned
        self._channel: Channel | None = None
        self._is_killed = False
        self._exited = asyncio.Event()
        self._life: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, or None before the process is spawned and after its end."""
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
        new = {segment.id: segment for segment in segments if segment.id not in self._passed}
        freed = tuple(i for i in self._passed if not self._segments.holds(i))
        self._passed.difference_update(freed)
        self._passed.update(new)
        self._channel.send((tuple(new), freed, message), tuple(new.values()))

    def kill(self) -> None:
        """Send SIGKILL, also to a process that is just being spawned. `on_exit` follows."""
        self._is_killed = True
        if self._process is not None:
            self._process.kill()

    async def stop(self) -> None:
        """Close the channel and wait until the process has ended; kill it after a grace time.

        SIGKILL does not end a process that waits inside a driver: it is left behind after as long.
        """
        if self._channel is None:
            return
        self._channel.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._exited.wait(), _EXIT_GRACE_SECONDS)
            return
        self.kill()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._exited.wait(), _EXIT_GRACE_SECONDS)

    async def _live(self, channel: Channel, on_exit: Callable[[str], None]) -> None:
        """Follow the process from its start to the reason of its end."""
        try:
            process = await self._spawn(channel)
            reason = await _end_of(process, channel)
            self._process = None
            process.close()  # its two pipes would stay open until the next garbage collection
        except Exception as error:  # the supervisor has to learn of any end: it would wait for ever
            self.kill()
            reason = f"could not be run: {_cause(error)}"
        self._exited.set()
        on_exit(reason)

    async def _spawn(self, channel: Channel) -> SpawnProcess:
        """Start the process and connect to it.

        Raises:
            OSError, RuntimeError, MemoryError: no process, thread, descriptor or memory is left.
        """
        with contextlib.ExitStack() as sockets:
            end, child_end = map(sockets.enter_context, socket.socketpair())
            process = multiprocessing.get_context("spawn").Process(
                target=_child_main,
                args=(child_end, logs.configured(), self._main, self._arguments),
                name=self._name,
                daemon=True,
            )
            # Spawning takes milliseconds of system calls: not on the event loop.
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(_SPAWNING, _start, process)
            self._process = process
            if self._is_killed:
                process.kill()
            channel.open(end)
            sockets.pop_all()
        child_end.close()
        return process


class Parent:
    """The child's view of the server: messages in order, shared memory by id."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._passed: deque[int] = deque()  # descriptors that no message has named yet
        self._descriptors: dict[int, int] = {}  # of segments that are not mapped yet, by their id
        self._mapped: dict[int, Bytes] = {}

    def receive(self) -> Any:
        """Wait for the next message.

        Raises:
            EOFError: the server has closed the channel.
        """
        size = 0
        while not size:  # an empty frame has only descriptors
            (size,) = _LENGTH.unpack(self._read(_LENGTH.size))
        passed, freed, message = pickle.loads(self._read(size))
        for segment_id in freed:
            self._mapped.pop(segment_id, None)
            if segment_id in self._descriptors:
                os.close(self._descriptors.pop(segment_id))
        for segment_id in passed:
            self._descriptors[segment_id] = self._passed.popleft()
        return message

    def has_message(self) -> bool:
        """Tell whether `receive` has something to read. Thread-safe, and takes a microsecond."""
        poll = select.poll()  # of this call alone: one poll object serves one thread
        poll.register(self._end, select.POLLIN)
        return bool(poll.poll(0))

    def send(self, message: object) -> None:
        """Send a message to the server; block while the socket is full."""
        self._end.sendall(_frame(message))

    def memory(self, segment: SegmentHandle | Segment) -> Bytes:
        """Return the bytes of a segment that a message has named."""
        if segment.id not in self._mapped:
            descriptor = self._descriptors.pop(segment.id)
            try:
                memory = map_descriptor(descriptor, segment.size)
            finally:
                os.close(descriptor)
            self._mapped[segment.id] = np.frombuffer(memory, np.uint8)
        return self._mapped[segment.id]

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        view, room = memoryview(data), socket.CMSG_SPACE(_DESCRIPTORS * _INT.size)
        while view:
            count, passed, _, _ = self._end.recvmsg_into([view], room)
            if not count:
                raise EOFError
            for _, _, numbers in passed:
                self._passed += (number for (number,) in _INT.iter_unpack(numbers))
            view = view[count:]
        return data


def exit_reason(code: int) -> str:
    """Return how a process ended, from its exit code; a negative one is a signal."""
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with status {code}"


def _start(process: SpawnProcess) -> None:
    # A process inherits the mask, so signals to the group do not end it while it imports. The
    # tracker of multiprocessing, which the first start would start, unblocks them: it comes before.
    resource_tracker.ensure_running()
    former = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_THE_GROUP)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _child_main(
    end: socket.socket,
    log: tuple[str, str] | None,
    main: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    _end_with_parent()
    if log is not None:
        logs.configure(*log)
    # Ctrl-C and a process manager's SIGTERM may reach the whole group. The server decides when its
    # children end, by closing their channels.
    for number in _OF_THE_GROUP:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _OF_THE_GROUP)
    try:
        main(Parent(end), *arguments)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the server has closed the channel
    except Exception:  # multiprocessing would write it to a pipe that nobody may read
        _log.exception("a child process failed")
        sys.exit(1)
    finally:
        logging.shutdown()


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
