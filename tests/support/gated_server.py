"""`elmo serve` with a worker that computes only while its gate is open.

    with gated(folder, max_queue_tokens=1000) as server:
        close_gate(server)

Settings come from the environment. SIGUSR1 closes the gate, SIGUSR2 opens it: while it is closed
the queue stays as it is, however fast the machine.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elmo_serve import logs
from elmo_serve.http.server import run
from elmo_serve.http.state import assemble
from elmo_serve.processes.arena import Arena
from elmo_serve.settings import Settings, variable
from elmo_serve.settings.text import from_strings
from elmo_serve.workers.messages import RunnerSettings
from tests.support.servers import Running, running
from tests.support.workers import GatedWorker


class SignalledWorker(GatedWorker):
    """A `GatedWorker` whose gate is moved by signals to its process."""

    def start(self, on_message: Callable[[Any], None], on_exit: Callable[[str], None]) -> None:
        super().start(on_message, on_exit)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self.close)
        loop.add_signal_handler(signal.SIGUSR2, self.open)


def _make(settings: RunnerSettings, arena: Arena) -> SignalledWorker:
    return SignalledWorker()


def main() -> int:
    """Serve until SIGTERM."""
    given = {name: os.environ.get(variable(name)) for name in Settings.model_fields}
    settings = from_strings(given)
    logs.configure(settings.log_level, settings.log_format)
    return run(assemble(settings, _make))


@contextmanager
def gated(folder: Path, **settings: Any) -> Iterator[Running]:
    """Run the server with its gate open."""
    command = (sys.executable, "-m", "tests.support.gated_server")
    with running(folder, command=command, devices="cpu", **settings) as server:
        yield server


def close_gate(server: Running) -> None:
    """Let no batch finish that has not begun to be reported."""
    os.kill(server.pid, signal.SIGUSR1)


def open_gate(server: Running) -> None:
    """Finish the batch that runs, and all later ones."""
    os.kill(server.pid, signal.SIGUSR2)


if __name__ == "__main__":
    sys.exit(main())
