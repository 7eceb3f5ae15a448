"""A child process: spawned, connected to a channel and the arena, followed to its end."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnProcess
from typing import Any

from elmo_serve import logs
from elmo_serve.processes.arena import Arena, ArenaMap
from elmo_serve.processes.channel import Channel, Parent

_EXIT_GRACE_SECONDS = 5.0
"""Seconds from the end of the channel to SIGKILL; a larger value delays the end of the server."""

_REAP_SECONDS = 0.05
"""Seconds between two looks at a killed process whose end the event loop cannot wait for."""

_SPAWNING = ThreadPoolExecutor(1, "elmo-spawn")
"""The thread that spawns every process. Its own, so that work for requests, which may hang on a
network file system, delays no replacement. It lives as long as this process: the kernel kills the
children of a thread that ends, see `_end_with_parent`."""

_OF_THE_GROUP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that a terminal or a process manager sends to a server and its children alike."""

_PR_SET_PDEATHSIG = 1

_log = logging.getLogger("elmo_serve.processes")


class ChildProcess:
    """Runs `main(parent, *arguments)` in a spawned process, which inherits the arena."""

    def __init__(
        self,
        name: str,
        main: Callable[..., None],
        arguments: tuple[Any, ...],
        arena: Arena,
    ) -> None:
        self._name, self._main, self._arguments = name, main, arguments
        self._arena = arena
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

    def send(self, message: object) -> None:
        """Send a message; one to a child that has ended is lost."""
        if self._channel is not None:
            self._channel.send(message)

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
            await self._reap()
        self._exited.set()
        on_exit(reason)

    async def _reap(self) -> None:
        """Wait for the end of a killed process without a descriptor, which may not be there."""
        while self._process is not None and self._process.exitcode is None:  # noqa: ASYNC110
            await asyncio.sleep(_REAP_SECONDS)

    async def _spawn(self, channel: Channel) -> SpawnProcess:
        """Start the process and connect to it.

        Raises:
            OSError, RuntimeError, MemoryError: no process, thread, descriptor or memory is left.
        """
        with contextlib.ExitStack() as sockets:
            end, child_end = map(sockets.enter_context, socket.socketpair())
            process = multiprocessing.get_context("spawn").Process(
                target=_child_main,
                args=(child_end, self._arena, logs.configured(), self._main, self._arguments),
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
    arena: ArenaMap,
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
        main(Parent(end, arena), *arguments)
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
