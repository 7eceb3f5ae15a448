"""The process of one fit: the part that needs no torch."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from elmo_serve import logs
from elmo_serve.jobs.fit_messages import Train
from elmo_serve.workers.process import Parent
from elmo_serve.workers.slot import Started

PROCESS_NAME = "elmo-fit"
"""Name of the process in `ps` and `top`."""


def work(parent: Parent, log_level: str, log_format: str) -> None:
    """Fit one task."""
    with suppress(OSError):  # not on every system
        Path("/proc/self/comm").write_text(PROCESS_NAME)
    logs.configure(log_level, log_format)
    # torch, in this process only: the server imports this module too.
    from elmo_serve.jobs.fit_training import train  # noqa: PLC0415

    parent.send(Started())
    task: Train = parent.receive()
    body, vectors = parent.memory(task.body), parent.memory(task.vectors)
    _end_with_server(parent)
    parent.send(train(task, body, vectors, parent.send))
    _wait_for_end()


def _end_with_server(parent: Parent) -> None:
    """End this process when the server closes the channel or dies: the fit itself never reads."""

    def watch() -> None:
        with suppress(EOFError, OSError):
            parent.receive()
        os._exit(0)

    threading.Thread(target=watch, name="server", daemon=True).start()


def _wait_for_end() -> None:
    threading.Event().wait()
