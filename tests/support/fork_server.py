"""A process that has imported the program, from which tests fork its commands.

    process = forked(["elmo", "serve"], env, stdout=log, stderr=log)

Importing torch, the web framework and the tokenizers takes most of the processor time of a start.
The fork server imports them once. Each command is forked from it and runs `elmo_serve.cli.main`;
the children that the command spawns are forked from the command. A test of the start itself, of
memory or of the process table starts the real command.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from multiprocessing import context, popen_fork
from pathlib import Path
from typing import Any

_STATUS = struct.Struct("<i")
_MAX_DESCRIPTORS = 1 << 20
_MODULES = (
    "elmo_serve.cli",
    "elmo_serve.http.server",
    "elmo_serve.files.in_process",
    "elmo_serve.jobs.fit_training",
    "elmo_serve.workers.json_worker",
    "elmo_serve.workers.model_loading",
    "elmo_serve.workers.model_worker",
    "elmo_serve.workers.text_worker",
    "h5py",
)
"""What the commands and their children import when they run."""


class Forked:
    """A process that the fork server started; the part of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, end: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._end = end  # the fork server writes the exit status to its other end

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status, negative for a signal.

        Raises:
            subprocess.TimeoutExpired: the process still runs after `timeout` seconds.
        """
        if self.returncode is None:
            self._end.settimeout(timeout)
            try:
                found = self._end.recv(_STATUS.size)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("elmo", timeout or 0) from None
            (self.returncode,) = _STATUS.unpack(found)
            self._end.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to a process that runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def forked(command: Sequence[str], env: Mapping[str, str], stdout: int, stderr: int) -> Forked:
    """Start `elmo ...` or `python -m ...` in a fork; its standard input is /dev/null."""
    mine, theirs = socket.socketpair()
    request = json.dumps({"command": list(command), "env": dict(env), "cwd": str(Path.cwd())})
    with theirs, Path(os.devnull).open("rb") as nothing:
        server = _server()
        socket.send_fds(
            server, [request.encode()], [nothing.fileno(), stdout, stderr, theirs.fileno()]
        )
    (pid,) = _STATUS.unpack(mine.recv(_STATUS.size))
    return Forked(pid, mine)


@functools.cache
def _server() -> socket.socket:
    """Start the fork server of this process, which ends with it."""
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    number = theirs.fileno()
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fork_server", str(number)],
            stdin=subprocess.DEVNULL,
            pass_fds=[number],
            env={key: value for key, value in os.environ.items() if not key.startswith("ELMO_")},
            start_new_session=True,
        )

    def end() -> None:
        mine.close()
        server.wait()

    atexit.register(end)
    return mine


def _serve(requests: socket.socket) -> list[str] | None:
    """Fork a process for each request; return its command in the fork, None when the tests end."""
    waking, wakeup = socket.socketpair()
    wakeup.setblocking(False)
    signal.set_wakeup_fd(wakeup.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ends: dict[int, socket.socket] = {}
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    selector.register(waking, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is waking:
                waking.recv(1 << 16)
                _report_ended(ends)
                continue
            message, descriptors, _, _ = socket.recv_fds(requests, 1 << 20, 4)
            if not message:
                return None
            end = socket.socket(fileno=descriptors.pop())
            pid = os.fork()
            if not pid:
                return _become(json.loads(message), descriptors)
            for each in descriptors:
                os.close(each)
            end.sendall(_STATUS.pack(pid))
            ends[pid] = end


def _report_ended(ends: dict[int, socket.socket]) -> None:
    while ends:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with ends.pop(pid) as end:
            end.sendall(_STATUS.pack(os.waitstatus_to_exitcode(status)))


def _become(request: dict[str, Any], descriptors: list[int]) -> list[str]:
    """Take over the standard streams, the variables and the folder of a request."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, _MAX_DESCRIPTORS)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    command: list[str] = request["command"]
    return command


class _ForkedChild(popen_fork.Popen):
    """A forked child in the place of a spawned one, for `multiprocessing`.

    Like a spawned one it has the descriptors of its arguments alone.
    """

    method = "spawn"

    def _launch(self, process_obj: Any) -> None:
        sockets = [each.fileno() for each in process_obj._args if isinstance(each, socket.socket)]
        self.sentinel, alive = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(alive)
            return
        code = 1
        try:
            _close_all_but(0, 1, 2, alive, *sockets)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            Path("/proc/self/comm").write_text(process_obj.name)
            code = process_obj._bootstrap()
        finally:
            os._exit(code)


def _close_all_but(*kept: int) -> None:
    numbers = sorted(kept)
    for low, high in pairwise([*numbers, _MAX_DESCRIPTORS]):
        os.closerange(low + 1, high)


def _run(command: list[str]) -> None:
    program, *arguments = command
    if program == "elmo":
        sys.argv = [program, *arguments]
        importlib.import_module("elmo_serve.cli").main()
    else:  # python -m MODULE
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)


def main(requests: socket.socket) -> None:
    """Import the program; fork commands until the tests end."""
    for module in _MODULES:
        importlib.import_module(module)
    tokenizers = importlib.import_module("elmo_model.tokenizers")
    for name in tokenizers.TOKENIZERS:
        tokenizers.tokenizer(name)("")  # imports its library
    gc.collect()
    gc.freeze()
    command = _serve(requests)
    if command is not None:
        setattr(context.SpawnProcess, "_Popen", staticmethod(_ForkedChild))  # noqa: B010
        _run(command)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
