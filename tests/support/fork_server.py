"""A process that has imported the program, from which tests fork its commands.

    process = forked(["elmo", "serve"], env, stdout=log, stderr=log)
    done = run(["elmo", "info", "english"])
    subprocess.run("elmo info english", shell=True, env=with_elmo(os.environ))

Importing torch, the web framework and the tokenizers takes most of the processor time of a start.
The fork server imports them once, for all test processes of pytest-xdist. Each command is forked
from it and runs `elmo_serve.cli.main`; the children that the command spawns are forked from the
command. A test of the start itself, of memory or of the process table starts the real command.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import importlib
import json
import logging
import os
import runpy
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from multiprocessing import context, popen_fork, util
from pathlib import Path
from typing import Any

_NUMBER = struct.Struct("<i")
_MODULES = (
    "elmo_model.training.command",
    "elmo_serve.cli",
    "elmo_serve.http.server",
    "elmo_serve.models.in_process",
    "elmo_model.tasks.comparison",
    "elmo_serve.workers.model_loading",
    "elmo_serve.workers.model_worker",
    "h5py",
)
"""What the commands and their children import when they run."""


class Forked:
    """A process that the fork server started; the part of `subprocess.Popen` that tests use."""

    def __init__(self, connection: socket.socket) -> None:
        self.returncode: int | None = None
        self._connection = connection  # the fork server sends the process id and the exit status
        self.pid = _receive(connection)

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
            self._connection.settimeout(timeout)
            try:
                self.returncode = _receive(self._connection)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("elmo", timeout or 0) from None
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to a process that runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def forked(
    command: Sequence[str | Path],
    env: Mapping[str, str],
    stdin: int | None = None,
    stdout: int = 1,
    stderr: int = 2,
) -> Forked:
    """Start `elmo ...` or `python -m ...` in a fork, in this folder.

    The standard streams are descriptors; the input is /dev/null by default.
    """
    with Path(os.devnull).open("rb") as nothing:
        streams = (nothing.fileno() if stdin is None else stdin, stdout, stderr)
        return Forked(_request(address(), list(map(str, command)), dict(env), streams))


def run(
    command: Sequence[str | Path], env: Mapping[str, str] | None = None, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command in a fork to its end, with this standard input, and return what it printed."""
    file = tempfile.TemporaryFile
    with file() as stdin, file() as stdout, file() as stderr:
        stdin.write(text.encode())
        stdin.seek(0)
        streams = stdin.fileno(), stdout.fileno(), stderr.fileno()
        code = forked(command, env or os.environ, *streams).wait()
        for each in (stdout, stderr):
            each.seek(0)
        printed = stdout.read().decode(), stderr.read().decode()
    return subprocess.CompletedProcess(list(map(str, command)), code, *printed)


def with_elmo(env: Mapping[str, str]) -> dict[str, str]:
    """Return variables with which a shell finds an `elmo` that is forked."""
    return {**env, "PATH": f"{Path(address()).parent}{os.pathsep}{env['PATH']}"}


_PROGRAM = """#!{0} -IS
import os, runpy, sys
server = runpy.run_path({2!r})
command = ["elmo", *sys.argv[1:]]
code = server["Forked"](server["_request"]({1!r}, command, dict(os.environ), (0, 1, 2))).wait()
sys.exit(128 - code if code < 0 else code)
"""


_VARIABLE = "TESTS_FORK_SERVER"
"""Names the socket in child processes."""


def address() -> str:
    """Return the path of the socket of the fork server.

    It is started by the first process that asks, whose children share it, and ends with this one.
    """
    if _VARIABLE not in os.environ:
        os.environ[_VARIABLE] = _started()
    return os.environ[_VARIABLE]


def _started() -> str:
    folder = tempfile.mkdtemp(prefix="fork-server-")
    address = str(Path(folder, "socket"))
    program = Path(folder, "elmo")
    program.write_text(_PROGRAM.format(sys.executable, address, str(Path(__file__))))
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(64)
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fork_server", str(listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            env={key: value for key, value in os.environ.items() if not key.startswith("ELMO_")},
            start_new_session=True,
        )

    def end() -> None:
        server.communicate()
        shutil.rmtree(folder)

    atexit.register(end)
    return address


def _request(
    address: str, command: list[str], env: dict[str, str], streams: tuple[int, int, int]
) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(address)
    request = json.dumps({"command": command, "env": env, "cwd": os.getcwd()})  # noqa: PTH109
    socket.send_fds(connection, [request.encode()], streams)
    return connection


def _receive(connection: socket.socket) -> int:
    (found,) = _NUMBER.unpack(connection.recv(_NUMBER.size))
    return int(found)


def _serve(listener: socket.socket) -> list[str] | None:
    """Fork a process for each request; return its command in the fork, None when the tests end."""
    waking, wakeup = socket.socketpair()
    wakeup.setblocking(False)
    signal.set_wakeup_fd(wakeup.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connections: dict[int, socket.socket] = {}
    selector = selectors.DefaultSelector()
    for each in (listener, waking, sys.stdin):
        selector.register(each, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is sys.stdin:
                return None
            if key.fileobj is waking:
                waking.recv(1 << 16)
                _report_ended(connections)
                continue
            connection, _ = listener.accept()
            message, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                selector.close()
                for each in (listener, waking, wakeup, connection, *connections.values()):
                    each.close()
                return _become(json.loads(message), descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            connections[pid] = connection
            with contextlib.suppress(OSError):  # its test has ended
                connection.sendall(_NUMBER.pack(pid))


def _report_ended(connections: dict[int, socket.socket]) -> None:
    while connections:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with connections.pop(pid) as connection, contextlib.suppress(OSError):
            connection.sendall(_NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _become(request: dict[str, Any], descriptors: list[int]) -> list[str]:
    """Take over the standard streams, the variables and the folder of a request."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # The old objects know where they were in the old files: a pipe has no such place.
    buffering = 1 if os.isatty(1) else -1
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    faulthandler.register(signal.SIGUSR1)  # with it a process and its children show their stacks
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    command: list[str] = request["command"]
    return command


class _ForkedChild(popen_fork.Popen):
    """A forked child in the place of a spawned one, for `multiprocessing`.

    Like a spawned one it has the files of its arguments alone.
    """

    method = "spawn"

    def _launch(self, process_obj: Any) -> None:
        sockets = [each.fileno() for each in process_obj._args if isinstance(each, socket.socket)]
        self.sentinel, alive = os.pipe()
        self.finalizer = util.Finalize(self, os.close, (self.sentinel,))
        self.pid = os.fork()
        if self.pid:
            os.close(alive)
            return
        code = 1
        try:
            _blank_all_but({0, 1, 2, alive, *sockets})
            signal.set_wakeup_fd(-1)
            # No thread writes the lines of these here, and it may have held their lock.
            logging.getLogger().handlers.clear()
            logging._handlerList.clear()  # type: ignore[attr-defined]
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            Path("/proc/self/comm").write_text(process_obj.name)
            code = process_obj._bootstrap()
        finally:
            os._exit(code)


def _blank_all_but(kept: set[int]) -> None:
    """Let the other descriptors lead to /dev/null.

    They are not closed: an object of the parent that is deleted later would close a new file of the
    same number.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in {int(name) for name in os.listdir("/proc/self/fd")} - kept:  # noqa: PTH208
        os.dup2(nothing, number)


def _run(command: list[str]) -> None:
    program, *arguments = command
    if Path(program).name == "elmo":
        sys.argv = [program, *arguments]
        importlib.import_module("elmo_serve.cli").main(prog_name="elmo")
    else:  # python -m MODULE
        sys.argv = arguments[1:]
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)


def main(listener: socket.socket) -> None:
    """Import the program; fork commands until the tests end."""
    for module in _MODULES:
        importlib.import_module(module)
    tokenizers = importlib.import_module("elmo_model.text.tokenizers")
    for name in tokenizers.TOKENIZERS:
        tokenizers.tokenizer(name)("")  # imports its library
    gc.collect()
    gc.freeze()
    command = _serve(listener)
    if command is not None:
        setattr(context.SpawnProcess, "_Popen", staticmethod(_ForkedChild))  # noqa: B010
        _end(_code_of(command))


def _code_of(command: list[str]) -> int:
    """Run a command, print the exception that ends it, and return its exit status."""
    try:
        _run(command)
    except SystemExit as end:
        if isinstance(end.code, int | None):
            return end.code or 0
        print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    else:
        return 0
    return 1


def _end(code: int) -> None:
    """End as the interpreter does, without freeing the modules: torch's take half a second."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    util._flush_std_streams()  # type: ignore[attr-defined]
    os._exit(code)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
